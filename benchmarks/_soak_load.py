"""What `soak.py` asks of a service: everything that clients do, drawn from a seed.

Almost every graph is one that the service has never seen, so that whatever it keeps for each shows;
their sizes are few, so that all kernels are compiled early.
"""

import json
from collections import Counter, deque
from collections.abc import Callable

import httpx
import numpy as np
import torch
from torch import Tensor

import hetune
from hetune import nn
from hetune.clients import Client
from hetune.variants import errors

WIDTH = 16
_KEPT = 12
_SIZES = ((40, 160), (150, 600), (500, 3000))
_NTYPES = ("author", "paper")
_ETYPES = (("author", "writes", "paper"), ("paper", "by", "author"), ("paper", "cites", "paper"))
_NONE = "0" * 32
_LENGTH = "Inference-Header-Content-Length"


class Load:
    """Requests in a drawn order. Only what is asked for counts: other answers are errors.

    Args:
        url: Of the service.
        seed: Of everything that is drawn.

    Attributes:
        counts: How often each kind of request was made.
        last: The kind that was made last.
    """

    def __init__(self, url: str, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._client = Client(url, timeout=60, retries=0)
        self._http = httpx.Client(base_url=url, timeout=60, trust_env=False)
        self._kept: deque[tuple[str, hetune.HeteroGraph]] = deque()
        self._versions = 1
        self.counts: Counter[str] = Counter()
        self.last = ""
        self._kinds: tuple[tuple[int, Callable[[], None]], ...] = (
            (30, self.infer_by_id),
            (10, self.infer_by_id_json),
            (12, self.infer_inline),
            (6, self.infer_inline_json),
            (6, self.open_inference_by_id),
            (6, self.open_inference_inline),
            (6, self.select),
            (2, self.explain),
            (4, self.upload),
            (4, self.upload_json),
            (10, self.refused),
            (4, self.look),
            (1, self.new_version),
        )
        torch.manual_seed(seed)
        self._client.put_model("mixed", self._mixed())
        self._client.put_model("typed", [nn.HGT(WIDTH, WIDTH, (_NTYPES, _ETYPES), heads=2)])
        for _ in range(_KEPT):
            self.upload()

    def step(self) -> None:
        """One request, or a few that belong together."""
        weights = np.array([weight for weight, _ in self._kinds], dtype=float)
        kind = self._kinds[self._random.choice(len(weights), p=weights / weights.sum())][1]
        self.last = kind.__name__
        self.counts[self.last] += 1
        kind()

    def close(self) -> None:
        """Ends the connections."""
        self._client.close()
        self._http.close()

    # Kinds of requests.

    def infer_by_id(self) -> None:
        id, graph = self._any_kept()
        answer = self._client.infer(self._model(), id, self._features(graph))
        assert isinstance(answer.out, Tensor)
        assert answer.out.shape == (graph.num_nodes, WIDTH)

    def infer_by_id_json(self) -> None:
        id, graph = self._any_kept()
        body = {"graph": id, "features": self._features(graph).tolist(), "nodes": [0, 3, 7]}
        found = self._post(f"/v1/models/{self._model()}/infer", body)
        rows = next(iter(found["outputs"].values()))
        assert len(rows) == 3, found

    def infer_inline(self) -> None:
        graph = self._graph()
        self._client.infer(self._model(), graph, self._features(graph))

    def infer_inline_json(self) -> None:
        graph = self._graph(largest=2)
        body = {"graph": _document(graph), "features": self._features(graph).tolist()}
        self._post(f"/v1/models/{self._model()}/infer", body)

    def open_inference_by_id(self) -> None:
        id, graph = self._any_kept()
        x = self._features(graph)
        tensor = {"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.tolist()}
        body = {"inputs": [tensor], "parameters": {"graph_id": id}}
        self._post(f"/v2/models/{self._model()}/infer", body)

    def open_inference_inline(self) -> None:
        graph = self._graph()
        tensors = {
            "x": ("FP32", self._features(graph)),
            "edge_index": ("INT32", torch.stack([graph.src, graph.dst])),
            "edge_type": ("INT32", graph.etype),
        }
        inputs = [
            {
                "name": name,
                "shape": list(tensor.shape),
                "datatype": datatype,
                "parameters": {"binary_data_size": tensor.nbytes},
            }
            for name, (datatype, tensor) in tensors.items()
        ]
        text = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
        data = b"".join(tensor.numpy().tobytes() for _, tensor in tensors.values())
        answer = self._http.post(
            "/v2/models/mixed/infer", content=text + data, headers={_LENGTH: str(len(text))}
        )
        assert answer.status_code == 200, answer.text

    def select(self) -> None:
        given = self._any_kept()[0] if self._random.random() < 0.5 else self._graph()
        self._client.select(self._model(), given)

    def explain(self) -> None:
        self._client.select("mixed", self._any_kept()[0], explain=True)

    def upload(self) -> None:
        graph = self._graph()
        self._keep(self._client.upload_graph(graph), graph)

    def upload_json(self) -> None:
        graph = self._graph(largest=2)
        self._keep(str(self._post("/v1/graphs", _document(graph), status=201)["id"]), graph)

    def refused(self) -> None:
        id, graph = self._any_kept()
        x = self._features(graph)
        infer = "/v1/models/mixed/infer"
        deep = b"[" * 5000
        tries: tuple[Callable[[], None], ...] = (
            lambda: self._raises(errors.NotFoundError, "mixed", _NONE, x),
            lambda: self._raises(errors.NotFoundError, "nobody", id, x),
            lambda: self._raises(errors.InputError, "mixed", id, x[:, 1:]),
            lambda: self._status(400, "POST", infer, json={"graph": id}),
            lambda: self._status(400, "POST", infer, content=deep, headers=_JSON),
            lambda: self._status(415, "POST", infer, content=b"x"),
            lambda: self._status(404, "GET", f"/v1/{self._random.integers(1 << 40)}"),
            lambda: self._status(405, "PATCH", infer),
            lambda: self._status(400, "POST", "/v2/models/mixed/infer", content=b"{}"),
            lambda: self._status(422, "POST", "/v1/graphs", json={"src": [0, 9], "dst": [0, 0],
                                                                  "num_nodes": 2}),
        )  # fmt: skip
        tries[self._random.integers(len(tries))]()

    def look(self) -> None:
        id, _ = self._any_kept()
        for path in (f"/v1/graphs/{id}", "/v1/models", "/metrics", "/v2/models/mixed/stats"):
            self._status(200, "GET", path)

    def new_version(self) -> None:
        self._versions += 1
        self._client.put_model("mixed", self._mixed(), self._versions)
        self.infer_by_id()
        self._client.delete_model("mixed", self._versions)

    # What they are made of.

    def _mixed(self) -> list[torch.nn.Module]:
        return [
            nn.RGCN(WIDTH, WIDTH, len(_ETYPES)),
            torch.nn.ReLU(),
            nn.RGAT(WIDTH, WIDTH // 2, len(_ETYPES), heads=2),
        ]

    def _model(self) -> str:
        return "mixed" if self._random.random() < 0.7 else "typed"

    def _graph(self, largest: int = len(_SIZES)) -> hetune.HeteroGraph:
        nodes, edges = _SIZES[self._random.integers(largest)]
        half = nodes // 2
        ntype = np.repeat([0, 1], [half, nodes - half])
        etype = np.sort(self._random.integers(0, len(_ETYPES), edges))
        ends = [
            self._random.integers(0, half, edges)
            + np.array([half * _NTYPES.index(triple[side]) for triple in _ETYPES])[etype]
            for side in (0, 2)
        ]
        return hetune.HeteroGraph(
            *(torch.from_numpy(array) for array in (*ends, etype, ntype)),
            ntype_names=_NTYPES,
            etype_names=[relation for _, relation, _ in _ETYPES],
            canonical_etypes=_ETYPES,
        )

    def _features(self, graph: hetune.HeteroGraph) -> Tensor:
        drawn = self._random.standard_normal((graph.num_nodes, WIDTH), dtype=np.float32)
        return torch.from_numpy(drawn)

    def _any_kept(self) -> tuple[str, hetune.HeteroGraph]:
        return self._kept[self._random.integers(len(self._kept))]

    def _keep(self, id: str, graph: hetune.HeteroGraph) -> None:
        self._kept.append((id, graph))
        if len(self._kept) > _KEPT:
            self._client.delete_graph(self._kept.popleft()[0])

    def _post(self, path: str, body: object, status: int = 200) -> dict[str, object]:
        answer = self._http.post(path, json=body)
        assert answer.status_code == status, answer.text
        found: dict[str, object] = answer.json()
        return found

    def _status(self, status: int, method: str, path: str, **body: object) -> None:
        answer = self._http.request(method, path, **body)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"

    def _raises(self, kind: type[Exception], model: str, id: str, x: Tensor) -> None:
        try:
            self._client.infer(model, id, x)
        except kind:
            return
        raise AssertionError(f"no {kind.__name__}")


_JSON = {"Content-Type": "application/json"}


def _document(graph: hetune.HeteroGraph) -> dict[str, object]:
    return {
        "src": graph.src.tolist(),
        "dst": graph.dst.tolist(),
        "etype": graph.etype.tolist(),
        "ntype": graph.ntype.tolist(),
        "num_nodes": graph.num_nodes,
        "ntype_names": list(graph.ntype_names),
        "etype_names": list(graph.etype_names),
        "canonical_etypes": [list(triple) for triple in graph.canonical_etypes],
    }
