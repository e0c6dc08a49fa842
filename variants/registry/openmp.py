"""One OpenMP thread pool in the process: the kernels use the library that torch has loaded."""

import ctypes
import functools
import logging
import os
from pathlib import Path

_log = logging.getLogger(__name__)


@functools.cache
def share_openmp_with_torch() -> None:
    """Make torch's OpenMP library visible to kernels, which are linked without one.

    Torch's wheels load it globally, so importing torch is all it takes; other builds of torch may
    keep it to themselves, and then it is opened once more, globally.
    """
    import torch  # here, for it takes a second and only loading a kernel needs it

    survive_forks()
    if _visible():
        return
    candidates = [*_mapped(), *sorted(Path(torch.__file__).parent.glob("lib/libgomp*"))]
    for path in (*map(str, candidates), "libgomp.so.1"):
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        if _visible():
            _log.debug("opened %s globally for the kernels", path)
            return


@functools.cache
def survive_forks() -> None:
    """Let processes that are forked from now on have one thread.

    OpenMP's pool of threads does not survive a fork: a launch of several, of hetune or of torch,
    would wait for them forever.
    """
    import torch

    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def _visible() -> bool:
    return any(hasattr(ctypes.CDLL(None), name) for name in ("GOMP_parallel", "__kmpc_fork_call"))


def _mapped() -> list[str]:
    """Paths of the OpenMP libraries mapped into this process."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    paths = (line.split(maxsplit=5)[-1] for line in lines if "libgomp" in line)
    return list(dict.fromkeys(paths))
