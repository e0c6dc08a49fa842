"""Layers as two commits run them, in turns: the later one's time as a share of the other's.

    python benchmarks/revisions.py [OLD] [--new COMMIT] [--layers rgcn,rgat,hgt] \\
        [--graphs mag_0.1] [--widths 64] [--rounds 21]

Each commit has a copy, a process and a cache of its own. A process runs twice when it is asked to:
once to wake its threads, once for the clock.
Both run the variant that the later one's selector chooses for very many runs (the other chooses
its own where it has no such variant). Without --new it is the checkout as it stands.
"""

import argparse
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from _command_line import command_line, names, numbers
from _graphs import NAMES
from _machine import commit, write_record
from _measure import as_json, geometric_mean
from _peers.problem import LAYERS
from rich.console import Console
from rich.progress import Progress

from hetune.profiling.measure.timing import Timing

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parent


class Revision:
    """A process that runs layers of one commit."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **question: Any) -> dict[str, Any]:
        """Its answer.

        Raises:
            SystemExit: It has ended; what it said is on stderr.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r} has ended: see above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def running(source: Path) -> Iterator[Revision]:
    """A process with the hetune of a folder. The benchmarks' own modules are this checkout's."""
    path = os.pathsep.join((str(source / "src"), str(_HERE)))
    with tempfile.TemporaryDirectory() as cache:  # commits may not know each other's manifests
        process = subprocess.Popen(
            (sys.executable, str(_HERE / "_revision.py")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "HETUNE_CACHE": cache},
        )
        try:
            yield Revision(process)
        finally:
            process.kill()
            process.communicate()


def resolved(revision: str) -> str:
    """The commit's full name.

    Raises:
        SystemExit: There is no such commit.
    """
    try:
        return _git("rev-parse", "--verify", f"{revision}^{{commit}}").decode().strip()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"no commit {revision!r}: {error.stderr.decode().strip()}") from error


@contextmanager
def copied(name: str) -> Iterator[Path]:
    """A copy of a commit."""
    packed = io.BytesIO(_git("archive", "--format=tar", name))
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=packed) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def _git(*arguments: str) -> bytes:
    command = ("git", "-C", str(_ROOT), *arguments)
    return subprocess.run(command, capture_output=True, check=True).stdout


def measure(
    old: Revision, new: Revision, layer: str, graph: str, width: int, options: argparse.Namespace
) -> dict[str, Any]:
    """The cell of one layer on one graph."""
    asked = {"layer": layer, "graph": graph, "width": width, "threads": options.threads}
    found = new.ask(**asked, variant="")
    other = old.ask(**asked, variant=found["variant"])
    seconds: dict[str, list[float]] = {"old": [], "new": []}
    turns = [("old", old), ("new", new)]
    draw = random.Random(0)
    for _ in range(options.rounds):
        draw.shuffle(turns)
        for name, revision in turns:
            seconds[name].append(revision.ask(run=1)["seconds"])
    # Of a round's two runs, which are next to each other, whatever the machine does meanwhile.
    ratios = (after / before for before, after in zip(*seconds.values(), strict=True))
    return {
        "key": f"{layer}/{graph}/{width}",
        "variants": {"old": other["variant"], "new": found["variant"]},
        "same_bits": other["bits"] == found["bits"],
        "share": round(statistics.median(ratios), 4),
        **{name: as_json(Timing(tuple(times))) for name, times in seconds.items()},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all cells, print the table, write the JSON."""
    options = _parser().parse_args(arguments)
    old_name = resolved(options.old)
    new_name = resolved(options.new) if options.new else None
    cells: list[dict[str, Any]] = []
    with ExitStack() as stack:
        old = stack.enter_context(running(stack.enter_context(copied(old_name))))
        source = stack.enter_context(copied(new_name)) if new_name else _ROOT
        new = stack.enter_context(running(source))
        progress = stack.enter_context(Progress(console=Console(soft_wrap=True)))
        wanted = [
            (layer, graph, width)
            for layer in options.layers
            for graph in options.graphs
            for width in options.widths
        ]
        for layer, graph, width in progress.track(wanted, description="layers"):
            cells.append(cell := measure(old, new, layer, graph, width, options))
            progress.console.print(_line(cell))
    new_name = new_name or commit() or "the checkout"
    share = round(geometric_mean([cell["share"] for cell in cells]), 4)
    print(f"{new_name[:12]} against {old_name[:12]}: {share:.3f}, geometric mean")
    if options.out:
        found = {"old": old_name, "new": new_name, "share": share, "cells": cells}
        write_record(options.out, options.threads, **found)
    return 0


def _line(cell: dict[str, Any]) -> str:
    times = (f"{cell[of]['median_ms']:.2f} ± {cell[of]['iqr_ms']:.2f} ms" for of in ("old", "new"))
    bits = "same bits" if cell["same_bits"] else "other bits"
    took = f"{' -> '.join(times)}, {cell['share']:.3f}"
    return f"{cell['key']}: {took}, {bits}, {cell['variants']['new']}"


def _parser() -> argparse.ArgumentParser:
    line = command_line(__doc__)
    line.add_argument("old", nargs="?", default="HEAD", help="a commit; HEAD if left out")
    line.add_argument("--new", help="a later one; the checkout as it stands if left out")
    line.add_argument("--layers", type=names, default=list(LAYERS))
    line.add_argument("--graphs", type=names, default=list(NAMES))
    line.add_argument("--widths", type=numbers, default=[64])
    line.add_argument("--rounds", type=int, default=21)
    line.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    line.add_argument("--out", type=Path, help="where the figures are to be kept, if anywhere")
    return line


if __name__ == "__main__":
    raise SystemExit(main())
