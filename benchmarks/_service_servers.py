"""The servers of `service.py` with a case's graph and model in them, and ways to ask them."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import torch
from _serve import Serving, hetune_serve, started
from _service_cases import Case
from _service_load import Shot
from safetensors.torch import load, save, save_file
from torch import Tensor

from hetune.clients import Client
from hetune.clients.http import calls

_PEER = Path(__file__).parent / "_service_peer.py"
_TYPE = "application/x-safetensors"
Ask = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Target:
    """A server with a case in it.

    Attributes:
        serving: The server.
        client: Asks as a user does: tensors in, tensors out.
        shot: A load of the same requests, for so many seconds and clients, at a rate or None.
        variants: What ran, layer by layer; () for the peer.
    """

    serving: Serving
    client: Ask
    shot: Callable[[float, int, float | None], Shot]
    variants: tuple[str, ...] = ()


@contextmanager
def hetune_target(case: Case, threads: int, *options: str) -> Iterator[Target]:
    """`hetune serve`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        serving = stack.enter_context(
            hetune_serve(folder, "--no-worker", *options, threads=threads)
        )
        client = stack.enter_context(Client(serving.url))
        client.put_model("m", case.layers())
        id, x = client.upload_graph(case.graph()), case.features()
        first = client.infer("m", id, x)
        call = calls.infer("m", id, x)
        assert call.body is not None
        body = folder / "body"
        body.write_bytes(b"".join(call.body))
        headers = {"Accept": _TYPE, "Content-Type": _TYPE}
        shot = partial(Shot, f"{serving.url}{call.path}", str(body), headers)

        def infer(x: Tensor) -> Tensor:
            out = client.infer("m", id, x).out
            assert isinstance(out, Tensor)
            return out

        variants = tuple(layer.variant for layer in first.report.layers)
        yield Target(serving, infer, shot, variants)


@contextmanager
def peer_target(case: Case, threads: int) -> Iterator[Target]:
    """FastAPI and PyG."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        layers = [layer for layer in case.layers() if list(layer.parameters())]
        save_file(torch.nn.ModuleList(layers).state_dict(), folder / "model.safetensors")
        command = (sys.executable, str(_PEER), str(folder), str(threads))
        serving = stack.enter_context(started(command, folder))
        client = stack.enter_context(httpx.Client(base_url=serving.url, timeout=600))
        graph, x = case.graph(), case.features()
        tensors = {
            "edge_index": torch.stack([graph.src, graph.dst]),
            "edge_type": graph.etype,
            "num_nodes": torch.tensor(graph.num_nodes),
        }
        id = client.post("/graphs", content=save(tensors)).raise_for_status().json()
        path = f"/graphs/{id}/infer"
        body = folder / "body"
        body.write_bytes(save({"x": x}))
        headers = {"Content-Type": "application/octet-stream"}
        shot = partial(Shot, f"{serving.url}{path}", str(body), headers)

        def infer(x: Tensor) -> Tensor:
            answer = client.post(path, content=save({"x": x})).raise_for_status()
            out: Tensor = load(answer.content)["out"]
            return out

        yield Target(serving, infer, shot)
