"""How much lies between a request to run and its kernel, and where that is computed."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from safetensors.torch import load

import hetune
from hetune.service.core.formats.message import MEDIA_TYPE
from hetune.service.server.app import application
from hetune.variants.backends.cpp.backend import CppBackend

from ._serving import asking, make_service, tiny_graph

MOST = 18
"""Frames of hetune's own files on a warm request, from the route's function to the native call.

Those of the route's coroutines count, and those of the thread that computes; not those of uvicorn,
Starlette, torch and Python itself."""
ROUTE = "/v1/models/m/infer"
ROUTE_FUNCTION = "add_computation.<locals>.respond"
OWN = tuple(str(path.resolve()) for path in Path(hetune.__file__).parent.iterdir())


def own_frames() -> list[str]:
    """Names of hetune's functions that are running in this thread, innermost first."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        if str(Path(frame.f_code.co_filename).resolve()).startswith(OWN):
            found.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return found


@pytest.fixture
def ways(monkeypatch) -> list[tuple[str, list[str]]]:
    """The thread of each native call, and the functions on the way to it."""
    found: list[tuple[str, list[str]]] = []
    routes: list[list[str]] = []
    submit, bind = ThreadPoolExecutor.submit, CppBackend.bind

    def noting_submit(pool, *args):
        own = own_frames()
        named = [position for position, name in enumerate(own) if name.endswith(ROUTE_FUNCTION)]
        if named:
            routes.append(own[: named[0] + 1])
        return submit(pool, *args)

    def noting_bind(*args):
        runner = bind(*args)

        def run(tensors):
            own = [type(runner).__qualname__, *own_frames(), *routes[-1]]
            found.append((threading.current_thread().name, own))
            return runner(tensors)

        return run

    monkeypatch.setattr(ThreadPoolExecutor, "submit", noting_submit)
    monkeypatch.setattr(CppBackend, "bind", noting_bind)
    return found


def test_few_frames_lie_between_a_request_and_its_kernel(tmp_path, x, ways):
    service = make_service(tmp_path / "data", "cpp")
    graph = tiny_graph()  # of its own: nothing is bound to it yet
    run = {"graph": service.graphs.add(graph), "x": x.tolist()}
    with asking(application(service)) as http:
        answers = []
        for _ in range(3):
            ways.clear()
            answer = http.post(ROUTE, json=run, headers={"Accept": MEDIA_TYPE})
            answers.append(load(answer.content)["out/1"])
    assert all(answer.equal(answers[0]) for answer in answers)
    assert {thread.rpartition("_")[0] for thread, _ in ways} == {"hetune-compute"}
    longest = max((way for _, way in ways), key=len)
    assert longest[-1].endswith(ROUTE_FUNCTION)
    assert len(longest) <= MOST, "\n".join(longest)
