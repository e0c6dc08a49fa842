"""`make audit` fails on what it finds, and says when it could find nothing."""

import subprocess
from pathlib import Path

import pytest

AUDIT = Path(__file__).resolve().parents[2] / ".ci" / "audit"
KNOWN = '{"dependencies": [{"name": "jinja2", "vulns": [{"id": "PYSEC-1"}]}]}'
UNKNOWN = '{"dependencies": [{"name": "jinja2", "skip_reason": "not found"}]}'


@pytest.mark.parametrize(
    ("database", "status", "code", "said"),
    [(KNOWN, 1, 1, "audited"), (KNOWN, 0, 0, "audited"), (UNKNOWN, 1, 0, "SKIPPED")],
)
def test_audit(tmp_path, database, status, code, said):
    tool = tmp_path / "pip-audit"
    tool.write_text(
        f"#!/bin/sh\ncase $1 in --requirement) echo '{database}';; *) echo audited;; esac\n"
        f"exit {status}\n"
    )
    tool.chmod(0o700)
    found = subprocess.run([AUDIT, tool], capture_output=True, text=True)
    assert found.returncode == code
    assert said in found.stdout + found.stderr
