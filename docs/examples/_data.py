"""The examples' data sets: those of PyG, whose raw files come from HETUNE_DATA where it is set."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

from torch_geometric.datasets import Entities, FB15k_237


def _given(folder: str) -> Path | None:
    found = Path(os.environ.get("HETUNE_DATA", "")) / "raw" / folder
    return found if "HETUNE_DATA" in os.environ and found.is_dir() else None


class AIFB(Entities):
    """People of an institute, whose research groups are to be told: 58,086 edges of 90 types."""

    def __init__(self, root: str) -> None:
        super().__init__(root, "AIFB")

    def download(self) -> None:
        """Copies the raw files, or downloads them."""
        if (folder := _given("aifb")) is None:
            super().download()
        else:
            for name in self.raw_file_names:
                shutil.copy(folder / name, self.raw_dir)


class Freebase(FB15k_237):
    """FB15k-237: 272,115 facts of 237 relations to learn from, and others to test with."""

    def download(self) -> None:
        """Unpacks the raw files, or downloads them."""
        if (folder := _given("fb15k237")) is None:
            super().download()
        else:
            with tarfile.open(folder / "FB15k-237.tar.gz") as archive:
                archive.extractall(self.raw_dir, filter="data")
