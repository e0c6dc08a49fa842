"""Compilers at once."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from hetune.variants.errors import RegistryError


def jobs_of(jobs: int | None) -> int:
    """How many compilers run at once: as asked for, or HETUNE_JOBS, or one per processor.

    Raises:
        RegistryError: the number is none, or below 1.
    """
    if jobs is None:
        text = os.environ.get("HETUNE_JOBS") or str(os.cpu_count() or 1)
        if not text.strip().isdigit():
            raise RegistryError(
                f"HETUNE_JOBS={text!r} is no count: set it to 1 or more, or unset it"
            )
        jobs = int(text)
    if jobs < 1:
        raise RegistryError(f"{jobs} jobs cannot compile anything: ask for 1 or more")
    return jobs


@contextmanager
def pool_of(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """A thread pool that drops what has not begun when the caller is interrupted."""
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="hetune-build")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
