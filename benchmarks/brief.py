"""What is gained where brief requests are answered in the event loop, by one thread each.

    python benchmarks/brief.py

Three services take turns: as it is, one that computes brief requests in the loop, and short layers
by one thread; the same with all threads for every layer; and one that computes everything in the
thread for it. They are asked for a small graph alone, and for a small and a larger one in turns, so
that both threads' teams of threads are at work.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from _machine import commit, fingerprint
from _results import Results
from _serve import started
from _service_cases import SMALL, Case
from rich.console import Console
from rich.table import Table

from hetune.clients import Client

LARGER = Case(20_000, 200_000, 4, (32, 32, 16))
_SERVE = """
from hetune.clients.cli.app import main
from hetune.service.core import brief, selection
{}
main()
"""
SERVICES = {
    "as it is": "",
    "all threads": "selection.ALONE_SECONDS = 0.0",
    "beside the loop": "brief.BRIEF_SECONDS = 0.0",
}
"""What is changed in each."""
_PAUSE = 0.02
_PERCENTILES = (10, 50, 90)
_RESULT = Path(__file__).resolve().parent / "results" / "brief.json"
Ask = Callable[[], object]


def main(arguments: Sequence[str] | None = None) -> int:
    """Asks all of them, and prints a table."""
    options = parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        services = {
            name: running.enter_context(served(Path(folder, str(number)), change, options))
            for number, (name, change) in enumerate(SERVICES.items())
        }
        found = measure(services, options)
    results = Results.open(options.out, fingerprint(options.threads), commit(), fresh=True)
    table = Table("asked for", "service", *(f"p{p} ms" for p in _PERCENTILES))
    for (what, service), times in sorted(found.items()):
        shown = {f"p{p}_ms": round(np.percentile(times, p) * 1e3, 3) for p in _PERCENTILES}
        table.add_row(what, service, *(f"{value:.3f}" for value in shown.values()))
        cell = {"asked": what, "service": service, "requests": len(times), **shown}
        results.put({"key": f"{what}, {service}", **cell})
    console = Console()
    console.print(table)
    console.print(f"wrote {options.out}")
    return 0


@contextmanager
def served(folder: Path, change: str, options: argparse.Namespace) -> Iterator[dict[str, Ask]]:
    """A service with both graphs, and what asks for each."""
    command = (sys.executable, "-c", _SERVE.format(change), "serve", "--port", "0", "--no-worker")
    places = ("--data", str(folder / "data"), "--store", str(folder / "store.db"))
    threads = ("--threads", str(options.threads))
    with (
        started((*command, *places, *threads), folder) as serving,
        Client(serving.url) as client,
    ):
        yield {
            "small": _asks(client, "small", SMALL),
            "larger": _asks(client, "larger", LARGER),
        }


def _asks(client: Client, name: str, case: Case) -> Ask:
    client.put_model(name, case.layers())
    id, x = client.upload_graph(case.graph()), case.features()

    def ask() -> object:
        return client.infer(name, id, x)

    for _ in range(5):
        ask()
    return ask


def measure(
    services: dict[str, dict[str, Ask]], options: argparse.Namespace
) -> dict[tuple[str, str], list[float]]:
    """Seconds of each request, by what was asked for and whom."""
    found: dict[tuple[str, str], list[float]] = {}
    turns, draw = [(s, way) for s in services for way in ("alone", "in turns")], random.Random(0)
    for _ in range(options.rounds):
        draw.shuffle(turns)
        for service, way in turns:
            time.sleep(_PAUSE)
            asks = services[service]
            kinds = ("small",) if way == "alone" else ("small", "larger")
            for _ in range(options.block):
                for kind in kinds:
                    begin = time.perf_counter()
                    asks[kind]()
                    seconds = time.perf_counter() - begin
                    found.setdefault((f"{kind}, {way}", service), []).append(seconds)
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    line.add_argument("--rounds", type=int, default=30)
    line.add_argument("--block", type=int, default=40, help="requests in a turn")
    line.add_argument("--threads", type=int, default=2)
    line.add_argument("--out", type=Path, default=_RESULT)
    return line


if __name__ == "__main__":
    raise SystemExit(main())
