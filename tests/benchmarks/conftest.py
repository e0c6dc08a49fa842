"""The benchmarks are scripts beside each other, not a package: tests put them on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
