"""`hetune store`: there and back from the shell."""

from hetune.profiling.store.parquet import export_parquet
from hetune.profiling.store.store import Store
from hetune.profiling.testing.records import MACHINE, measurement


def test_there_and_back(hetune, tmp_path):
    path, file = tmp_path / "store.db", tmp_path / "monday.db"
    with Store.open(path) as store:
        store.add([measurement(1)], MACHINE)
    written = hetune("store", "backup", file, "--store", path)
    assert (written.exit_code, written.stdout) == (0, f"1 measurement in {file}\n")
    refused = hetune("store", "restore", file, "--store", path)
    assert (refused.exit_code, "--replace" in refused.stderr) == (1, True)
    restored = hetune("store", "restore", file, "--store", path, "--replace")
    assert (restored.exit_code, restored.stdout) == (0, f"1 measurement restored from {file}\n")


def test_what_was_measured_elsewhere(hetune, tmp_path):
    elsewhere, here, file = tmp_path / "elsewhere.db", tmp_path / "here.db", tmp_path / "a.parquet"
    with Store.open(elsewhere) as store:
        store.add([measurement(1), measurement(2)], MACHINE)
        export_parquet(store, file)
    with Store.open(here) as store:
        store.add([measurement(1)], MACHINE)
    said = hetune("store", "import", file, "--store", here)
    assert (said.exit_code, said.stdout) == (
        0,
        f"1 measurement imported from {file} (1 was there)\n",
    )
    refused = hetune("store", "import", elsewhere, "--store", here)
    assert (refused.exit_code, "name a whole file" in refused.stderr) == (1, True)
    refused = hetune("store", "import", here, "--store", here)
    assert (refused.exit_code, "is the store itself" in refused.stderr) == (1, True)
