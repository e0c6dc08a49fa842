"""The program `hetune`, which says nothing when it is interrupted while it loads."""

from __future__ import annotations

import signal


def main() -> None:
    """Loads the command line and runs it."""
    # Python's own handler raises wherever it is, and importing ends in a traceback then.
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # it may be ignored
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hetune.clients.cli.app import app

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app()
