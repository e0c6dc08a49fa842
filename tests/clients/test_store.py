"""`hetune store`: there and back from the shell."""

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
