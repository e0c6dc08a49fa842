"""What command lines of the benchmarks have in common. It imports nothing that takes time."""

import argparse
import os
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def command_line(doc: str | None, out: str = "") -> argparse.ArgumentParser:
    """A script's, with the first line of its docstring.

    Args:
        doc: The docstring.
        out: Name of the results file; with it there are `--threads` and `--out`.
    """
    line = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    if out:
        line.add_argument("--threads", type=int, default=os.cpu_count() or 1)
        line.add_argument("--out", type=Path, default=RESULTS / f"{out}.json")
    return line


def names(text: str) -> list[str]:
    """What a command line names, comma after comma."""
    return [name.strip() for name in text.split(",") if name.strip()]


def numbers(text: str) -> list[int]:
    """The same, of numbers."""
    return [int(name) for name in names(text)]
