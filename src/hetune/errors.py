"""The errors that hetune raises; the tree of them stands in their own module."""

from hetune.variants import errors as _errors
from hetune.variants.errors import *  # noqa: F403

__doc__ = _errors.__doc__
