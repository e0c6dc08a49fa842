"""The peer of `service.py`: the same model in PyG behind FastAPI, as an expert would serve it.

Graphs are kept by id, their edges sorted by type; bodies are safetensors; one thread computes, in
inference mode. Of PyG's two layers the one that is faster on the graph is taken.

    python benchmarks/_service_peer.py <folder of model.safetensors> <threads>
"""

import asyncio
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import uvicorn
from fastapi import FastAPI, Request, Response
from safetensors.torch import load, load_file, save
from torch import Tensor, nn
from torch_geometric.nn import FastRGCNConv, RGCNConv

_MOST_BYTES = 1 << 30
"""That the faster layer may take for the weights that it copies for each edge."""


class Model(nn.Module):
    """Two layers."""

    def __init__(self, weights: dict[str, Tensor], kind: type[RGCNConv]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            kind(*weights[f"{n}.weight"].shape[1:], weights[f"{n}.weight"].shape[0], aggr="mean")
            for n in (0, 1)
        )
        self.load_state_dict({f"layers.{name}": tensor for name, tensor in weights.items()})
        self.eval()

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """Rows of all nodes."""
        hidden = torch.relu(self.layers[0](x, edge_index, edge_type))
        found: Tensor = self.layers[1](hidden, edge_index, edge_type)
        return found


class Graphs:
    """Graphs by id, each with the model that is faster on it."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self._weights = weights
        self._kept: list[tuple[Model, Tensor, Tensor]] = []

    @torch.inference_mode()
    def add(self, body: bytes) -> int:
        """Keeps a graph."""
        tensors = load(body)
        edge_type, order = tensors["edge_type"].long().sort(stable=True)
        edge_index = tensors["edge_index"].long()[:, order].contiguous()
        weight = self._weights["0.weight"]
        kinds = [RGCNConv]
        if edge_type.numel() * weight[0].nbytes <= _MOST_BYTES:
            kinds.append(FastRGCNConv)
        x = torch.randn(int(tensors["num_nodes"]), weight.shape[1])
        models = [Model(self._weights, kind) for kind in kinds]
        times = [_best(model, x, edge_index, edge_type) for model in models]
        self._kept.append((models[times.index(min(times))], edge_index, edge_type))
        return len(self._kept) - 1

    @torch.inference_mode()
    def run(self, id: int, body: bytes) -> bytes:
        """Runs the model."""
        model, edge_index, edge_type = self._kept[id]
        out: bytes = save({"out": model(load(body)["x"], edge_index, edge_type)})
        return out


def _best(model: Model, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        model(x, edge_index, edge_type)
        times.append(time.perf_counter() - start)
    return min(times)


def application(weights: dict[str, Tensor]) -> FastAPI:
    """The routes."""
    app, graphs, computer = FastAPI(), Graphs(weights), ThreadPoolExecutor(1)

    @app.post("/graphs")
    async def add(request: Request) -> int:
        body = await request.body()
        return await asyncio.get_running_loop().run_in_executor(computer, graphs.add, body)

    @app.post("/graphs/{id}/infer")
    async def infer(id: int, request: Request) -> Response:
        body = await request.body()
        loop = asyncio.get_running_loop()
        content = await loop.run_in_executor(computer, graphs.run, id, body)
        return Response(content, media_type="application/octet-stream")

    return app


def main() -> None:
    """Serves until it is told to stop."""
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(threads)
    app = application(load_file(folder / "model.safetensors"))
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
