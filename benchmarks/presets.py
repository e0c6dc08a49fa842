"""How long the commands take that are to end in time: `hetune calibrate`, `hetune profile smoke`.

    python benchmarks/presets.py [--default]

Each runs in a process of its own, with an empty store and an empty shelf, kernels compiled anew.
With `--default` the campaign that models are trained on is timed, too, which takes half an hour.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from _machine import commit, fingerprint
from rich.console import Console
from rich.table import Table

_RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Timed:
    """A command, and how many seconds it took and may take."""

    command: str
    seconds: float
    goal: float

    @property
    def met(self) -> bool:
        """Whether it ended in time."""
        return self.seconds < self.goal


GOALS = {"calibrate": 60.0, "profile smoke": 120.0, "profile default": 1800.0}
"""Seconds, on two cores."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and keep."""
    options = parser().parse_args(arguments)
    names = [name for name in GOALS if options.default or name != "profile default"]
    with tempfile.TemporaryDirectory() as folder:
        found = [timed(name, Path(folder)) for name in names]
    table = Table("command", "seconds", "goal", "")
    for each in found:
        met = "met" if each.met else "[bold]missed"
        table.add_row(f"hetune {each.command}", f"{each.seconds:.1f}", f"below {each.goal:g}", met)
    console = Console()
    console.print(table)
    record: dict[str, Any] = {
        "machine": fingerprint(torch.get_num_threads()),
        "commit": commit(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commands": [{**asdict(each), "met": each.met} for each in found],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    console.print(f"wrote {options.out}")
    return 0


def timed(name: str, folder: Path) -> Timed:
    """Runs a command to its end.

    Raises:
        SystemExit: It fails; what it said is on stderr.
    """
    store = f"sqlite:///{folder / 'store.db'}"
    places = {"HETUNE_CACHE": str(folder / "cache"), "HETUNE_MODELS": str(folder / "models")}
    command = (str(Path(sys.executable).with_name("hetune")), *name.split())
    start = time.perf_counter()
    ended = subprocess.run(
        command, env={**os.environ, **places, "HETUNE_STORE": store}, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if ended.returncode:
        raise SystemExit(f"hetune {name} has failed: {ended.stderr}")
    return Timed(name, round(seconds, 1), GOALS[name])


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--default", action="store_true", help="the campaign `default`, too")
    line.add_argument("--out", type=Path, default=_RESULTS / "presets.json")
    return line


if __name__ == "__main__":
    raise SystemExit(main())
