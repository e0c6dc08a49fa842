"""`hetune serve` as a process: it says where it listens, answers, logs, and ends in order."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import httpx
import pytest
from tests.profiling._made_up import some_units
from tests.service._serving import tiny_graph

from hetune.clients import Client
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.store.store import Store
from hetune.service.server.server import is_loopback

COMMAND = (sys.executable, "-c", "from hetune.clients.cli.start import main; main()", "serve")
BUSY = """
import time
from hetune.clients.cli.start import main
from hetune.service.core.graphs.graphs import GraphStore
from hetune.service.core.models.warm_up import WarmUp

def take_long(*_):
    print("begun", flush=True)
    time.sleep(600)

WarmUp._load_all = GraphStore.get = take_long
main()
"""
HOST = "192.0.2.1"  # nobody has it: it is for documents


def until_ready(client):
    """Waits while the service compiles."""
    end = time.monotonic() + 120
    while not client.ready() and time.monotonic() < end:
        time.sleep(0.05)
    assert client.ready()


def routes_in_json(lines):
    found = [json.loads(line) for line in lines]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in found)
    answers = [line for line in found if line["logger"] == "hetune.access"]
    return [line["route"] for line in answers if line["method"] == "POST"]


def routes_in_text(lines):
    return re.findall(r"INFO \[\w+\] hetune\.access: POST (\S+): 201, ", "\n".join(lines))


@pytest.mark.parametrize(
    ("number", "style", "routes", "more", "state"),
    # No hetune has the variants of this job.
    [
        (signal.SIGTERM, "json", routes_in_json, ("--worker",), "failed"),
        (signal.SIGINT, "text", routes_in_text, (), "queued"),
    ],
    ids=["with-worker", "without"],
)
def test_it_serves_until_it_is_told_to_stop(tmp_path, number, style, routes, more, state):
    own = {"HETUNE_LOG": style, "HETUNE_STORE": "", "XDG_DATA_HOME": str(tmp_path)}
    environment = os.environ | own
    with Store.open(tmp_path / "store.db") as store:
        job = JobQueue(store).submit_units("mine", some_units(1)).id
    (tmp_path / "key").write_text("sesame\n")
    file = tmp_path / "hetune.toml"
    file.write_text(
        "port = 0\nworker = false\nlog = 'wrong'\nstore = 'store.db'\nservice_data = 'data'\n"
        "api_key_file = 'key'\n"
    )
    arguments = (*COMMAND, "--config", str(file), "--threads", "1", *more)
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        with Client(found[0], key="sesame") as client:
            until_ready(client)
            id = client.upload_graph(tiny_graph())
            if more:
                assert list(client.jobs.watch(job))
            assert client.jobs.get(job).state == state
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    assert routes(errors.splitlines()) == ["/v1/graphs"]
    assert "sesame" not in errors
    assert "the root key has 6 characters, and may be guessed" in errors
    assert [p.stem for p in (tmp_path / "data" / "graphs").glob("*.safetensors")] == [id]


@pytest.mark.parametrize(
    ("grace", "signals"), [("1", [signal.SIGTERM]), ("600", [signal.SIGTERM, signal.SIGINT])]
)
def test_nothing_that_takes_long_keeps_it_from_ending(tmp_path, grace, signals):
    """A computation and a warm-up are under way."""
    environment = os.environ | {"HETUNE_GRACE_SECONDS": grace, "XDG_DATA_HOME": str(tmp_path)}
    arguments = ("--port", "0", "--no-worker", "--data", str(tmp_path / "data"))
    process = subprocess.Popen(
        (sys.executable, "-c", BUSY, "serve", *arguments, "--store", str(tmp_path / "store.db")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout
        lines = [process.stdout.readline(), process.stdout.readline()]
        found = re.search(r"http://127\.0\.0\.1:\d+", "".join(lines))
        assert found, lines

        def ask():
            url = f"{found[0]}/v1/graphs/{'0' * 32}"
            answers.append(httpx.get(url, timeout=60, trust_env=False))

        answers = []
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        assert process.stdout.readline() == "begun\n"
        for number in signals:
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(2)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    asking.join(30)
    [answer] = answers  # what is cut off is told so
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "the service is stopping" in answer.json()["detail"]
    assert "Traceback" not in errors


def test_other_machines_are_let_in_with_a_key_only(hetune, monkeypatch, tmp_path):
    monkeypatch.delenv("HETUNE_API_KEY", raising=False)
    result = hetune("serve", "--host", "0.0.0.0", "--data", tmp_path)
    assert result.exit_code == 2
    for way in ("HETUNE_API_KEY", "hetune keys create", "--insecure"):
        assert way in result.stderr
    hetune("keys", "create", "--name", "ci", "--scope", "infer", "--data", tmp_path)
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        result = hetune("serve", "--host", "0.0.0.0", "--port", port, "--data", tmp_path)
    assert "cannot listen" in result.stderr


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("--port", ("--port", 99999)),
        ("cannot listen", ("--host", HOST)),
        ("--quota", ("--quota", "much")),
        ("cannot create the folder /proc/none", ("--data", "/proc/none")),
        (__file__, ("--data", __file__)),
        ("of kind 'mysql'", ("--store", "mysql://me@host/db", "--host", HOST)),
        ("cannot create the store", ("--store", "/proc/none/store.db", "--host", HOST)),
        ("the file is no database", ("--store", __file__, "--host", HOST)),
    ],
    ids=range(8),
)
def test_what_cannot_be_served(hetune, tmp_path, monkeypatch, said, arguments):
    monkeypatch.setenv("HETUNE_API_KEY", "a long enough root key")
    result = hetune("serve", "--data", tmp_path, *arguments)
    assert result.exit_code == 2
    assert re.fullmatch(rf"error: .*{said}.*\n", result.stderr)


def test_other_machines_do_not_get_in_by_a_key_that_may_be_guessed(hetune, tmp_path, monkeypatch):
    monkeypatch.setenv("HETUNE_API_KEY", "a")
    result = hetune("serve", "--host", HOST, "--data", tmp_path)
    assert result.exit_code == 2
    assert "has 1 character, and may be guessed: take 16 or more" in result.stderr


def test_a_share_that_is_none(hetune, tmp_path):
    result = hetune("serve", "--data", tmp_path, "--regret-samples", 2)
    assert result.exit_code == 2
    assert "--regret-samples" in result.stderr


def test_traces_that_there_are_not(hetune, tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    result = hetune("serve", "--data", tmp_path, "--tracing")
    assert result.exit_code == 2
    assert "http/protobuf" in result.stderr


def test_a_log_that_there_is_not(hetune, tmp_path, monkeypatch):
    monkeypatch.setenv("HETUNE_LOG", "xml")
    result = hetune("serve", "--data", tmp_path)
    assert result.exit_code == 2
    assert "xml" in result.stderr


def test_a_port_that_is_taken(hetune, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = hetune("serve", "--data", tmp_path, "--port", taken.getsockname()[1])
    assert result.exit_code == 2
    assert "--port" in result.stderr


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.168.0.1", False),
        ("localhost.example", False),
    ],
)
def test_which_addresses_only_this_machine_can_reach(host, expected):
    assert is_loopback(host) is expected
