"""`hetune serve` as a process: it says where it listens, answers, and ends in order."""

import os
import re
import signal
import socket
import subprocess
import sys

import pytest
from tests.service._serving import tiny_graph

from hetune.clients import Client
from hetune.service.http.server import is_loopback

COMMAND = (sys.executable, "-c", "from hetune.clients.cli.app import main; main()", "serve")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(tmp_path, number):
    environment = os.environ | {"HETUNE_API_KEY": "sesame"}
    arguments = (*COMMAND, "--port", "0", "--data", str(tmp_path / "data"), "--threads", "1")
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        with Client(found[0], key="sesame") as client:
            assert client.ready()
            id = client.upload_graph(tiny_graph())
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, "")
    assert [p.stem for p in (tmp_path / "data" / "graphs").glob("*.safetensors")] == [id]


def test_other_machines_are_let_in_with_a_key_only(hetune, monkeypatch, tmp_path):
    monkeypatch.delenv("HETUNE_API_KEY", raising=False)
    result = hetune("serve", "--host", "0.0.0.0", "--data", tmp_path)
    assert result.exit_code == 2
    assert "HETUNE_API_KEY" in result.stderr
    assert "--insecure" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--port", 99999), ("--host", "no.such.host.invalid"), ("--quota", "much")],
    ids=range(3),
)
def test_what_cannot_be_served(hetune, tmp_path, monkeypatch, arguments):
    monkeypatch.setenv("HETUNE_API_KEY", "sesame")
    result = hetune("serve", "--data", tmp_path, *arguments)
    assert result.exit_code == 2
    assert "error: " in result.stderr


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
