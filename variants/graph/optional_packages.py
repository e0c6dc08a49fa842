"""Optional packages, imported when they are first needed."""

import importlib
import os
import warnings
from types import ModuleType

from hetune.variants.errors import GraphError
from hetune.variants.extras import installing


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import `module`.

    Raises:
        GraphError: It is not installed; the message names the extra that brings it.
    """
    if module == "dgl":
        # Without it, DGL's first import writes a configuration file under HOME.
        os.environ.setdefault("DGLBACKEND", "pytorch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # import-time noise that no caller can mend
            return importlib.import_module(module)
    except ImportError as error:
        raise GraphError(
            f"{purpose} needs {module.split('.')[0]}, which cannot be imported ({error}): "
            f"{installing(extra)}"
        ) from error
