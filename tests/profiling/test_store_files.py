"""SQLite files: where they are, who may read them, and what goes wrong with them."""

import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from sqlalchemy import event
from tests.profiling._made_up import MACHINE, measurement

from hetune.profiling.store.prune import Prune, matching
from hetune.profiling.store.store import Store
from hetune.variants.errors import StoreError

OTHER = "set HETUNE_STORE to another store"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def test_the_default_is_a_private_file_among_the_user_s_data(tmp_path, monkeypatch):
    monkeypatch.delenv("HETUNE_STORE", raising=False)
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "data"))
    with Store.open() as store:
        store.add([measurement()], MACHINE)
        assert store.place == str(tmp_path / "data" / "profiling.db")
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "data").iterdir()}
        assert modes == dict.fromkeys(
            ("profiling.db", "profiling.db-wal", "profiling.db-shm"), 0o600
        )
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", " {} "])
def test_the_environment_names_another_one(path, monkeypatch, form):
    monkeypatch.setenv("HETUNE_STORE", form.format(path))
    with Store.open() as store:
        assert store.place == str(path)
    assert path.is_file()


@pytest.mark.parametrize("url", ["store.db", "./store.db", "sqlite:///store.db", Path("store.db")])
def test_paths_may_be_relative(path, monkeypatch, url):
    monkeypatch.chdir(path.parent)
    Store.open(url).close()
    assert path.is_file()


def test_writers_leave_readers_alone(path):
    with Store.open(path) as store:
        store.add([measurement()], MACHINE)
        assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_writer_waits_for_another_one(path):
    with Store.open(path) as store:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, other.execute, ["COMMIT"])
        release.start()
        assert store.add([measurement()], MACHINE).new == 1
        release.join()
        other.close()


def refusal(call) -> str:
    with pytest.raises(StoreError) as caught:
        call()
    assert caught.value.__cause__ is None
    return str(caught.value)


def limited(store: Store, pragma: str) -> None:
    """Let every new connection of a store begin with a statement, and begin new ones."""
    event.listen(store._shared.engine, "connect", lambda c, _: c.execute(pragma))
    store._shared.engine.dispose()


def test_a_full_disk_leaves_what_was_there(path):
    with Store.open(path) as store:
        store.add([measurement(1)], MACHINE)
    with Store.open(path) as store:
        pages = path.stat().st_size // 4096
        limited(store, f"PRAGMA max_page_count = {pages + 4}")
        said = refusal(lambda: store.add([measurement(n) for n in range(2, 100)], MACHINE))
        assert said == (
            f"cannot write to the store {path} (database or disk is full): free some space, or "
            f"{OTHER}"
        )
        assert list(store.measurements()) == [measurement(1)]
    with Store.open(path) as store:
        assert store.add([measurement(2)], MACHINE).new == 1


def test_a_file_that_cannot_be_written_can_be_read(path):
    with Store.open(path) as store:
        store.add([measurement(1)], MACHINE)
    with Store.open(f"sqlite:///file:{path}?mode=ro&uri=true") as store:
        assert list(store.measurements()) == [measurement(1)]
        said = refusal(lambda: store.add([measurement(2)], MACHINE))
        assert said.endswith(
            f"(attempt to write a readonly database): make the file and its folder writable, or "
            f"{OTHER}"
        )


@pytest.fixture
def anybody():
    """Root may write everywhere, so for a while it is somebody else."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


@pytest.fixture
def locked(path):
    path.parent.chmod(0o500)
    yield path
    path.parent.chmod(0o700)


def test_a_folder_that_cannot_be_written(locked, anybody):
    path = locked
    assert refusal(lambda: Store.open(path)) == (
        f"cannot create the store {path} (Permission denied): make the file and its folder "
        f"readable and writable, or {OTHER}"
    )


def test_a_folder_in_place_of_a_file(tmp_path):
    assert "(Is a directory)" in refusal(lambda: Store.open(tmp_path))


def test_a_file_in_place_of_a_folder(path):
    path.write_text("")
    assert "cannot create the store" in refusal(lambda: Store.open(path / "store.db"))


def test_a_file_that_is_no_database(path):
    path.write_text("unit,seconds\n" * 100)
    assert refusal(lambda: Store.open(path)) == (
        f"cannot open the store {path} (file is not a database): the file is no database: move it "
        f"away, or {OTHER}"
    )


def test_a_damaged_file(path):
    with Store.open(path) as store:
        store.add([measurement(n) for n in range(200)], MACHINE)
    data = bytearray(path.read_bytes())
    kept = len(data) // 8192 * 4096  # what opening reads is in its first half
    data[kept:] = b"\xff" * (len(data) - kept)
    path.write_bytes(data)
    with Store.open(path) as store:
        said = refusal(lambda: list(store.measurements()))
    assert "(database disk image is malformed): the file is damaged: save what is left" in said


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "nan", "inf", "1e9"])
def test_a_time_limit_that_is_none(path, monkeypatch, seconds):
    monkeypatch.setenv("HETUNE_STORE_SECONDS", seconds)
    said = refusal(lambda: Store.open(path))
    assert said == f"HETUNE_STORE_SECONDS={seconds}: take seconds, up to 3600, such as 10"


def test_what_is_no_json_is_left_out(path, caplog):
    """Which SQLite stores all the same; the others of its page are read."""
    with Store.open(path) as store:
        store.add([measurement(n) for n in range(3)], MACHINE)
        with sqlite3.connect(path) as other:
            other.execute("UPDATE profiling_measurements SET samples = 'so-so' WHERE id = 2")
        other.close()
        assert list(store.measurements()) == [measurement(0), measurement(2)]
        assert "1 measurements in" in caplog.text
        assert matching(store, Prune(damaged=True)) == (2,)


def test_a_busy_file(path, monkeypatch):
    monkeypatch.setenv("HETUNE_STORE_SECONDS", "0.05")
    with Store.open(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        said = refusal(lambda: store.add([measurement()], MACHINE))
        other.close()
    assert "(database is locked): another process has held it for long: wait for its end" in said


def test_tables_of_others_are_left_alone(path):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE notes (text)")
    other.execute("INSERT INTO notes VALUES ('mine')")
    other.commit()
    with Store.open(path) as store:
        store.add([measurement()], MACHINE)
    assert other.execute("SELECT * FROM notes").fetchall() == [("mine",)]
    other.close()
