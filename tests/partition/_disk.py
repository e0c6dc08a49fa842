"""A disk that is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hetune.variants.errors import PartitionError


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """The limit on a file's size stands for it: the system refuses the space."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(PartitionError, match="free some space and run it again"):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
