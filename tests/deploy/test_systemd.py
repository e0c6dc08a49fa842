"""Units for systemd: what they name is there, and they may do no more than the containers."""

import shutil
import subprocess

import pytest

from ._files import DEPLOY, ROOT
from ._hetune import check_command, variables

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
ENTRYPOINT = "/usr/local/bin/hetune-entrypoint"


def settings(path):
    """Values by name; a name may come several times."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_there_is_one_for_the_service_and_one_for_a_worker():
    assert [path.name for path in UNITS] == ["hetune-worker.service", "hetune.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_runs_a_command_that_there_is(path):
    found = settings(path)
    program, *words = found["ExecStart"][0].split()
    assert program == ENTRYPOINT
    check_command(words)
    for variable in found["Environment"]:
        name, value = variable.split("=", 1)
        if name.startswith("HETUNE_"):
            assert name in variables()
        if name.endswith("_FILE"):
            credential = value.removeprefix("%d/")
            assert any(given.startswith(f"{credential}:") for given in found["LoadCredential"])
        elif name != "PATH":
            assert value.startswith(f"/var/lib/{found['StateDirectory'][0]}")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_may_do_no_more_than_a_container(path):
    found = settings(path)
    assert found["User"] not in ([""], ["root"])
    assert found["CapabilityBoundingSet"] == [""]
    assert found["ProtectSystem"] == ["strict"]
    assert "ReadWritePaths" not in found
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome"):
        assert found[name] == ["true"]
    assert found["StateDirectoryMode"] == ["0700"]


def test_both_are_hardened_alike():
    ends = [path.read_text(encoding="utf-8").partition("\nUser=")[2] for path in UNITS]
    assert ends[0] == ends[1] != ""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_reads_them(tmp_path):
    copies = [tmp_path / path.name for path in UNITS]
    for path, copy in zip(UNITS, copies, strict=True):
        text = path.read_text(encoding="utf-8")
        copy.write_text(text.replace(ENTRYPOINT, str(DEPLOY / "entrypoint")), encoding="utf-8")
    command = ("systemd-analyze", "verify", "--man=no", *map(str, copies))
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_the_documents_name_them():
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert "deploy/systemd" in page
