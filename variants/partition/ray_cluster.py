"""A connection to a Ray cluster."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hetune.variants.errors import InputError
from hetune.variants.extras import installing


@contextmanager
def ray_cluster(address: str | None) -> Iterator[Any]:
    """The module `ray`, connected to a cluster as long as it lasts.

    What the caller has SIGTERM do stays: Ray would put a handler of its own in its place.

    Args:
        address: Of the cluster. None: the one that this process is connected to, or that Ray's own
            settings name, or a new one on this machine.

    Raises:
        InputError: Ray is not installed, no cluster answers, or an address is given where there is
            a connection.
    """
    try:
        import ray
    except ImportError as error:
        raise InputError(f"ray cannot be imported ({error}): {installing('ray')}") from error
    is_own = not ray.is_initialized()
    if address is not None and not is_own:
        raise InputError("this process is connected to a Ray cluster: leave address out")
    before = signal.getsignal(signal.SIGTERM)
    try:
        if is_own:
            _connect(ray, address)
            if before is not signal.SIG_DFL:
                _handle_sigterm(before)
        yield ray
    finally:
        if is_own:
            ray.shutdown()
            _handle_sigterm(before)


def _connect(ray: Any, address: str | None) -> None:
    try:
        ray.init(address, include_dashboard=False, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"no Ray cluster answers ({error})") from error


def _handle_sigterm(handler: Any) -> None:
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
