"""Servers that are killed, told to stop, or have no space: what they accepted is there still."""

import os
import random
import signal
import socket
import threading
import time

import httpx
import pytest
import torch
from tests.full import FULL

from hetune.service.core.formats.message import MEDIA_TYPE, pack
from hetune.service.core.models.stack import describe

from ._forked import forks
from ._serving import make_service, tiny_features, tiny_graph, tiny_layers

KILLS = 20 if FULL else 6
GRAPH = {"src": [0, 1], "dst": [1, 2], "etype": [0, 1], "num_nodes": 3}
RUN = {"graph": GRAPH, "x": [[0.0, 1.0, 2.0, 3.0]] * 3}
BINARY = {"Content-Type": MEDIA_TYPE}
ROWS = pack("{}", {"x": torch.ones(50, 4)})
CAMPAIGN = {
    "name": "mine",
    "layers": ["rgcn"],
    "widths": [8],
    "graphs": [{"kind": "typed", "nodes": 20, "edges": 40}],
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Starts servers, and kills them."""
    with forks(tmp_path_factory.mktemp("log") / "errors.txt") as found:
        yield found


def graph(number, edges=400):
    """A graph of its own for each number."""
    draw = torch.Generator().manual_seed(number)
    tensors = {name: torch.randint(50, (edges,), generator=draw) for name in ("src", "dst")}
    return pack('{"num_nodes": 50}', tensors)


def model(number):
    """The model m with weights of its own for each number."""
    description, weights = describe(tiny_layers())
    weights = {name: tensor + number for name, tensor in weights.items()}
    return pack(description.model_dump_json(), weights)


class Writers:
    """What clients send at the same time, over and over, and what of it was accepted."""

    def __init__(self, start: int) -> None:
        self.graphs: set[str] = set()
        self.features: set[tuple[str, str]] = set()
        self.versions: set[int] = set()
        self.jobs: set[int] = set()
        self.runs = 0
        self.unexpected: list[str] = []
        self._next = start

    def __len__(self) -> int:
        return len(self.graphs) + len(self.versions) + len(self.jobs) + self.runs

    def number(self) -> int:
        self._next += 1
        return self._next

    def write(self, url: str) -> list[threading.Thread]:
        """Starts all of them; each ends when the server does."""
        kinds = (self._graph, self._features, self._model, self._job, self._run)
        threads = [threading.Thread(target=self._loop, args=(url, kind)) for kind in kinds]
        for thread in threads:
            thread.start()
        return threads

    def _loop(self, url: str, send) -> None:
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
            try:
                while True:
                    send(http)
            except httpx.TransportError:
                return
            except Exception as error:
                self.unexpected.append(repr(error))

    def _graph(self, http) -> None:
        found = http.post("/v1/graphs", content=graph(self.number()), headers=BINARY)
        assert found.status_code == 201, found.text
        self.graphs.add(found.json()["id"])

    def _features(self, http) -> None:
        for id in tuple(self.graphs):
            name = f"f{self.number()}"
            found = http.put(f"/v1/graphs/{id}/features/{name}", content=ROWS, headers=BINARY)
            assert found.status_code == 201, found.text
            self.features.add((id, name))

    def _model(self, http) -> None:
        version = self.number()
        found = http.put(
            f"/v1/models/kept/versions/{version}", content=model(version), headers=BINARY
        )
        assert found.status_code == 201, found.text
        self.versions.add(version)

    def _job(self, http) -> None:
        asked = {"campaign": CAMPAIGN, "idempotency_key": str(self.number())}
        found = http.post("/v1/profiling/jobs", json=asked)
        assert found.status_code in (201, 429), found.text
        if found.status_code == 201:
            self.jobs.add(found.json()["id"])

    def _run(self, http) -> None:
        assert http.post("/v1/models/m/infer", json=RUN).status_code == 200
        self.runs += 1


def check(url, written):
    """Everything that was accepted is there, and everything that is there is whole."""
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
        assert http.get("/v1/health/ready").status_code == 200
        listed = {entry["id"] for entry in http.get("/v1/graphs").json()["graphs"]}
        assert listed >= written.graphs
        for id in listed:
            found = http.get(f"/v1/graphs/{id}")  # its content is compared with its id
            assert found.status_code == 200, found.text
            kept = http.get(f"/v1/graphs/{id}/features").json()["features"]
            assert {each["name"] for each in kept} >= {n for of, n in written.features if of == id}
        models = {m["name"]: m["versions"] for m in http.get("/v1/models").json()["models"]}
        assert set(models.get("kept", ())) >= written.versions
        for version in models.get("kept", ()):
            found = http.get(f"/v1/models/kept/versions/{version}")
            assert found.status_code == 200, found.text
        for job in written.jobs:
            found = http.get(f"/v1/profiling/jobs/{job}").json()
            assert found["campaign"] == "mine"
            assert found["progress"]["problems"] == 1
        assert http.post("/v1/models/m/infer", json=RUN).status_code == 200


def check_folder(folder):
    """Nothing is left that nobody will ask for."""
    assert not list(folder.rglob("staging/*"))
    assert not list(folder.rglob("*.damaged"))
    service = make_service(folder)
    for graph in service.graphs.all():
        for each in service.features.all(graph.id):
            assert torch.equal(service.features.get(graph.id, each.name), torch.ones(50, 4))
    for version in service.models.versions("kept"):
        kept = service.models.get("kept", version).modules[0].state_dict()
        first = tiny_layers()[0].state_dict()
        for name, tensor in kept.items():
            assert torch.equal(tensor, first[name] + version)


@pytest.mark.slow
def test_killed_again_and_again(servers, tmp_path):
    draw = random.Random(1)
    folder = tmp_path / "data"
    written = Writers(0)
    pid, url = servers.start(folder)
    for left in reversed(range(KILLS)):
        most = len(written) + draw.randint(1, 20)
        threads = written.write(url)
        wait_for(lambda most=most: len(written) >= most and written.jobs)
        if not left:  # a first run takes longer than all else
            wait_for(lambda: written.runs)
        time.sleep(draw.uniform(0, 0.02))
        servers.kill(pid)
        for thread in threads:
            thread.join(60)
        assert not written.unexpected
        pid, url = servers.start(folder)
    check(url, written)
    os.kill(pid, signal.SIGTERM)
    assert servers.wait(pid) == 0
    assert written.graphs
    assert written.features
    assert written.versions
    assert written.jobs
    assert written.runs
    check_folder(folder)


def test_what_a_killed_upload_leaves_goes(servers, tmp_path):
    folder = tmp_path / "data"
    pid, url = servers.start(folder)
    with Begun(url, graph(1)[:500]):
        wait_for(lambda: list((folder / "staging").iterdir()))
        servers.kill(pid)
    assert list((folder / "staging").iterdir())
    pid, _ = servers.start(folder)
    assert not list((folder / "staging").iterdir())
    servers.kill(pid)


def test_what_others_are_writing_stays(service):
    """Another process on the same folder is no killed one."""
    with service.folder.staged() as path:
        path.touch()
        make_service(service.folder.root)
        assert path.exists()
    assert not path.exists()


def test_a_full_disk(servers, tmp_path):
    folder = tmp_path / "data"
    pid, url = servers.start(folder)
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        kept = http.post("/v1/graphs", content=graph(1), headers=BINARY).json()["id"]
        # What runs is compiled, which takes space as well.
        assert http.post("/v1/models/m/infer", json=RUN).status_code == 200
    servers.kill(pid)
    most = 2 * max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    pid, url = servers.start(folder, most)
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        large = graph(2, edges=most // 16 + 1)
        found = http.post("/v1/graphs", content=large, headers=BINARY)
        assert found.status_code == 507
        assert found.json()["type"] == "urn:hetune:error:DiskFullError"
        assert "no space" in found.json()["detail"]
        assert str(folder) not in found.text
        assert http.get(f"/v1/graphs/{kept}").status_code == 200
        assert http.post("/v1/models/m/infer", json=RUN).status_code == 200
        assert http.post("/v1/graphs", content=graph(3), headers=BINARY).status_code == 201
        assert len(http.get("/v1/graphs").json()["graphs"]) == 2
    assert not list(folder.rglob("staging/*"))
    servers.kill(pid)


def test_a_stop_finishes_what_has_begun_and_refuses_the_rest(servers, tmp_path):
    folder = tmp_path / "data"
    pid, url = servers.start(folder)
    whole = graph(1)
    with Begun(url, whole, sent=500) as connection:
        wait_for(lambda: list((folder / "staging").iterdir()))
        os.kill(pid, signal.SIGTERM)
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
            wait_for(lambda: http.get("/v1/health/ready").status_code == 503)
            refused = http.post("/v1/models/m/infer", json=RUN)
            assert refused.status_code == 503
            assert "stopping" in refused.json()["detail"]
            assert refused.headers["retry-after"] == "1"
            assert set(http.get("/v2/health/ready").json()) == {"error"}
            assert http.get("/v1/health/live").status_code == 200
        connection.sendall(whole[500:])
        assert connection.recv(1000).startswith(b"HTTP/1.1 201 ")
    assert servers.wait(pid) == 0
    service = make_service(folder)
    assert len(service.graphs.all()) == 1
    assert service.inference.run("m", tiny_graph(), tiny_features())


class Begun:
    """An upload of which a part is sent."""

    def __init__(self, url, body, sent=None):
        parsed = httpx.URL(url)
        self._connection = socket.create_connection((parsed.host, parsed.port), 30)
        length = 100_000 if sent is None else len(body)
        head = f"POST /v1/graphs HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n"
        self._connection.sendall(f"{head}Content-Type: {MEDIA_TYPE}\r\n\r\n".encode() + body[:sent])

    def __enter__(self):
        return self._connection

    def __exit__(self, *_):
        self._connection.close()


def wait_for(condition):
    """Until it holds; a minute at most."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
