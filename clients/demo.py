"""`make demo`: a service of its own, a graph sent to it, what it answers, and its pages."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

import hetune
from hetune import nn
from hetune.clients import Client
from hetune.variants.errors import UnreachableError

_WIDTH = 64
_RUNS = 3
_RUNNERS_UP = 2
_SERVE = "from hetune.clients.cli.start import main; main()"
_STOP_SECONDS = 60
_OPEN_SECONDS = 3600
_KEEP = "keep"


@contextmanager
def service(folder: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`hetune serve` on a free port of this machine while it lasts; gives its URL, too.

    Args:
        folder: Its data, store and log.
        more: Other options.

    Raises:
        UnreachableError: It does not start.
    """
    # The user's jobs are none of the demo's.
    options = ("--port", "0", "--data", str(folder), "--store", str(folder / "measurements.db"))
    command = (sys.executable, "-c", _SERVE, "serve", *options, *more)
    log = folder / "service.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,  # noqa: S603
    ):
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            found = [word for word in words if word.startswith("http://")]
            if not found:
                raise UnreachableError(f"the service has not started:\n{log.read_text()}")
            yield found[0], process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def keep() -> None:
    """Runs a service for an hour, or until this process is told to stop; prints its URL."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with (
        tempfile.TemporaryDirectory() as folder,
        service(Path(folder)) as (url, process),
        suppress(subprocess.TimeoutExpired),
    ):
        print(url, flush=True)
        process.wait(_OPEN_SECONDS)


def start() -> tuple[str, int]:
    """Starts `keep` so that it outlives this process; gives the service's URL and what to kill.

    Raises:
        UnreachableError: It does not start.
    """
    process = subprocess.Popen(  # noqa: S603
        (sys.executable, "-m", "hetune.clients.demo", _KEEP),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as lines:
        first = lines.readline().strip()
        if not first.startswith("http://"):
            raise UnreachableError(first + lines.read())
    return first, process.pid


def main() -> None:
    """Sends a graph and a model of two layers to a service, and prints its answers."""
    graph = hetune.generate("aifb")
    torch.manual_seed(0)
    layers = [
        nn.RGCN(_WIDTH, _WIDTH, graph.num_etypes),
        torch.nn.ReLU(),
        nn.RGAT(_WIDTH, _WIDTH, graph.num_etypes),
    ]
    x = torch.randn(graph.num_nodes, _WIDTH)
    url, process = start()
    with Client(url) as client:
        print(f"a service runs on {url}")
        client.put_model("demo", layers)
        id = client.upload_graph(graph)
        print(f"it keeps the graph {id}: {graph.num_nodes} nodes, {graph.num_edges} edges")
        for run in range(_RUNS):
            answer = client.infer("demo", id, x, explain=run == _RUNS - 1)
            print(f"run {run + 1}{', kernels and indexes being made' if run == 0 else ''}:")
            for layer in answer.report.layers:
                assert layer.measured_seconds is not None
                predicted, measured = layer.predicted_seconds * 1e3, layer.measured_seconds * 1e3
                print(
                    f"  {layer.layer} by {layer.variant}: {predicted:.3f} ms predicted, "
                    f"{measured:.3f} ms measured"
                )
        for layer in answer.report.layers:
            print(f"why {layer.variant}: {layer.reason}")
            assert layer.explanation is not None
            for launch in layer.explanation.launches:
                print(f"  {launch.seconds * 1e3:.3f} ms for {launch.what}")
                effects = [f"{name} x{factor:.2f}" for name, factor in launch.features.items()]
                if effects:
                    print(f"    {', '.join(effects)}")
            runners_up = layer.explanation.candidates[1 : _RUNNERS_UP + 1]
            names = [f"{c.variant} {c.predicted_seconds * 1e3:.3f} ms" for c in runners_up]
            print(f"  of {len(layer.explanation.candidates)}, next: {', '.join(names)}")
        assert isinstance(answer.out, torch.Tensor)
        print(f"the answer, {list(answer.out.shape)}, begins with {answer.out[0, :4].tolist()}")
    print(f"\nopen {url}/ in a browser: it stays for an hour, or until you `kill {process}`")


if __name__ == "__main__":
    keep() if sys.argv[1:] == [_KEEP] else main()
