"""Graphs of `gpu_parts.py`: drawn by processes of their own while other things are measured.

python benchmarks/_gpu_parts_graphs.py NAME SCALE FILE    # draws one
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

ROAD = "road"
NAMES = ("am", "biokg", "mag", "wikikg2", ROAD)
_ROAD_NODES, _NEAR = 2_000_000, 2000


@dataclass(frozen=True)
class Edges:
    """A graph's edges by destination, on a device.

    Attributes:
        src: Source of each, int32 [E].
        dst: Destination, ascending, int32 [E].
        etype: Relation, int32 [E].
        nodes: N.
        relations: R.
    """

    src: Tensor
    dst: Tensor
    etype: Tensor
    nodes: int
    relations: int

    @cached_property
    def pointers(self) -> Tensor:
        """Where each node's edges begin, int32 [N + 1]."""
        rows = torch.arange(self.nodes + 1, dtype=torch.int32, device=self.dst.device)
        return torch.searchsorted(self.dst, rows, out_int32=True)


class Drawing:
    """Draws all graphs at once, each in a process.

    Args:
        names: Of `NAMES`.
        scale: Of their published sizes.
    """

    def __init__(self, names: tuple[str, ...], scale: float = 1.0) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._files = {name: Path(self._folder.name, f"{name}.npz") for name in names}
        environment = {**os.environ, "OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": ""}
        self._drawn = {
            name: subprocess.Popen(
                [sys.executable, __file__, name, str(scale), str(file)], env=environment
            )
            for name, file in self._files.items()
        }
        self._last: tuple[str, Edges] | None = None

    def graph(self, name: str, device: str) -> Edges:
        """A graph, once it is drawn; the last one is kept."""
        if self._last is None or self._last[0] != name:
            self._last = None
            if self._drawn[name].wait(timeout=200):
                raise RuntimeError(f"{name} could not be drawn")
            drawn = np.load(self._files[name])
            src, dst, etype = (torch.from_numpy(drawn[k]).to(device) for k in ("s", "d", "t"))
            order = torch.argsort(dst, stable=True)
            edges = Edges(src[order], dst[order], etype[order], int(drawn["n"]), int(drawn["r"]))
            self._last = name, edges
        return self._last[1]

    def end(self) -> None:
        """Ends what still draws, and deletes the files."""
        for process in self._drawn.values():
            process.kill()
            process.wait()
        self._folder.cleanup()


def road(nodes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sources and destinations: two to four edges of each node, from nodes close by."""
    rng = np.random.default_rng(seed)
    dst = np.repeat(np.arange(nodes, dtype=np.int32), rng.integers(2, 5, nodes))
    src = dst + rng.integers(-_NEAR, _NEAR + 1, len(dst)).astype(np.int32)
    return np.clip(src, 0, nodes - 1), dst


def _draw(name: str, scale: float, file: str) -> None:
    if name == ROAD:
        nodes = max(int(_ROAD_NODES * scale), 8)
        src, dst = road(nodes)
        np.savez(file, s=src, d=dst, t=np.zeros_like(src), n=nodes, r=1)
        return
    from hetune.variants.graph.generate import generate

    graph = generate(name, scale)
    columns = {"s": graph.src, "d": graph.dst, "t": graph.etype}
    np.savez(
        file, **{k: v.numpy() for k, v in columns.items()}, n=graph.num_nodes, r=graph.num_etypes
    )


if __name__ == "__main__":
    _draw(sys.argv[1], float(sys.argv[2]), sys.argv[3])
