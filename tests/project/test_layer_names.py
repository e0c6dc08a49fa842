"""Layers are known by their programs: their names stand in the frontend, and nowhere else."""

import re
from pathlib import Path

from hetune.variants.frontend.presets import LAYERS

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(rf"\b({'|'.join(LAYERS)})\b")
PRODUCT = ("variants", "costmodel", "profiling", "service", "clients", "src/hetune")
KNOWING = "variants/frontend/"


def test_no_other_file_has_a_layer_s_name():
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if not str(path.relative_to(ROOT)).startswith(KNOWING)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if NAME.search(line)
    ]
    assert found == []
