"""`hetune store`: there and back from the shell."""

from tests.profiling._made_up import MACHINE, measurement

from hetune.profiling.store.parquet import export_parquet
from hetune.profiling.store.store import Store


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


def test_what_is_removed(hetune, tmp_path):
    """After asking; what is not named stays."""
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.add([measurement(1), measurement(2, campaign="old")], MACHINE)

    def left():
        with Store.open(path) as store:
            return sum(tally.count for tally in store.summary())

    old = ("store", "prune", "--campaign", "old", "--store", path)
    refused = hetune("store", "prune", "--store", path)
    assert (refused.exit_code, "give --machine, --campaign or" in refused.stderr) == (2, True)
    asked = hetune(*old, typed="n\n")
    assert (asked.exit_code, left()) == (1, 2)
    assert f"Remove 1 measurement of {path} for good? [y/N]" in asked.stdout
    assert (hetune(*old).exit_code, left()) == (1, 2)  # nobody to ask
    assert (hetune(*old, typed="y\n").exit_code, left()) == (0, 1)
    done = hetune("store", "prune", "--machine", MACHINE.digest, "--yes", "--store", path)
    assert (done.exit_code, done.stdout) == (0, f"1 measurement removed from {path}\n")
    none = hetune("store", "prune", "--damaged", "--store", path)
    assert (none.exit_code, none.stdout) == (0, f"0 measurements removed from {path}\n")
