"""One engine for a file and process: nothing that a process does drops its locks on a store."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from tests.profiling._made_up import MACHINE, measurement

from hetune.profiling.store.backup import backup, restore
from hetune.profiling.store.connect import check_place, held
from hetune.profiling.store.parquet import export_parquet, import_parquet
from hetune.profiling.store.store import Store
from hetune.variants.errors import StoreError

ANOTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM profiling_measurements").fetchone()[0])
connection.close()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def another_process(path):
    """What one sees that opens a store and closes it again, as the last one if it thinks so."""
    command = (sys.executable, "-c", ANOTHER, str(path))
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def integrity(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchone()


def opened_again(path, tmp_path):
    Store.open(path).close()


def opened_by_another_name(path, tmp_path):
    (tmp_path / "link.db").symlink_to(path)
    Store.open(tmp_path / "link.db").close()


def held_for_a_while(path, tmp_path):
    with held(path):
        check_place(path)


def backed_up(path, tmp_path):
    backup(path, tmp_path / "backup.db")


@pytest.mark.parametrize("do", [opened_again, opened_by_another_name, held_for_a_while, backed_up])
def test_the_process_keeps_its_locks(path, tmp_path, do):
    with Store.open(path) as store:
        store.add([measurement(1)], MACHINE)
        do(path, tmp_path)
        assert another_process(path) == 1
        log = path.with_name("store.db-wal")
        assert log.exists()  # the other one was not the last
        store.add([measurement(2)], MACHINE)
        assert another_process(path) == 2
    assert not log.exists()
    assert integrity(path) == ("ok",)


def test_stores_of_a_file_share_an_engine_until_the_last_is_closed(path):
    one, other = Store.open(path), Store.open(path)
    assert one._shared.engine is other._shared.engine
    one.close()
    one.close()
    assert other.add([measurement(1)], MACHINE).new == 1
    other.close()
    for closed in (one, other):
        with pytest.raises(StoreError, match="was closed: open it again"):
            closed.summary()
    with Store.open(path) as store:
        assert store._shared.engine is not one._shared.engine
        assert len(list(store.measurements())) == 1


def test_two_names_of_one_file_are_refused(path, tmp_path):
    with Store.open(path):
        os.link(path, tmp_path / "other.db")
        with pytest.raises(StoreError, match="another name of the same file"):
            Store.open(tmp_path / "other.db")


def in_a_fork(do):
    """The error that something raises there."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            do()
        except StoreError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def test_a_fork_cannot_use_what_its_parent_has_open(path, tmp_path):
    with Store.open(path) as store:
        for do in (store.summary, lambda: Store.open(path), lambda: Store.open(str(path))):
            assert "was open when this process was forked" in in_a_fork(do)
        assert in_a_fork(store.close) == ""
        assert in_a_fork(lambda: Store.open(tmp_path / "its-own.db").close()) == ""
        assert store.add([measurement(1)], MACHINE).new == 1
        assert another_process(path) == 1
    assert in_a_fork(lambda: Store.open(path).close()) == ""


def deleted(path):
    path.unlink()


def replaced(path):
    with closing(sqlite3.connect(path.with_name("new.db"))) as connection:
        connection.execute("CREATE TABLE notes (text)")
    path.with_name("new.db").replace(path)


@pytest.mark.parametrize("harm", [deleted, replaced])
def test_a_file_that_is_not_there_any_more_is_not_written_to(path, harm):
    with Store.open(path) as store:
        harm(path)
        uses = (store.summary, lambda: store.add([measurement(1)], MACHINE))
        for use in (*uses, lambda: Store.open(path)):
            with pytest.raises(StoreError, match="was deleted or replaced while it was in use"):
                use()
    assert path.exists() == (harm is replaced)
    Store.open(path).close()


def test_a_file_that_is_held_is_not_made_anew(path):
    check_place(path)
    with held(path):
        Store.open(path).close()
        path.unlink()
        for use in (lambda: Store.open(path), lambda: check_place(path)):
            with pytest.raises(StoreError, match="was deleted or replaced while it was in use"):
                use()
        assert not path.exists()


def test_what_is_written_while_the_file_goes_is_not_acknowledged(path):
    with Store.open(path) as store:
        store.add([measurement(1)], MACHINE)
        with pytest.raises(StoreError, match="was deleted or replaced"), store.transaction():
            path.unlink()


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
@pytest.mark.parametrize("harm", [deleted, replaced])
def test_a_part_that_is_not_there_any_more_is_said(path, ending, harm):
    """And what was stored last is written to the store's own file when it is closed."""
    part = path.with_name(path.name + ending)
    with Store.open(path) as store:
        store.add([measurement(1)], MACHINE)
        with pytest.raises(StoreError, match="was deleted or replaced"), store.transaction():
            harm(part)
        uses = (store.summary, lambda: store.add([measurement(2)], MACHINE))
        for use in (*uses, lambda: Store.open(path), lambda: check_place(path)):
            with pytest.raises(StoreError, match=f"{part}, a part of the store {path}, was del"):
                use()
    if harm is deleted:
        with Store.open(path) as store:
            assert list(store.measurements()) == [measurement(1)]


def test_what_is_removed_with_the_last_connection_may_go(path):
    with Store.open(path) as store:
        for number in range(3):
            store._shared.engine.dispose()
            assert not path.with_name("store.db-wal").exists()
            store.add([measurement(number)], MACHINE)
    assert path.with_name("store.db") in path.parent.iterdir()


def test_a_new_store_s_log_is_watched_from_the_first_connection_on(path):
    with held(path):
        path.with_name("store.db-wal").unlink()
        with pytest.raises(StoreError, match=r"store\.db-wal, a part of the store"):
            check_place(path)


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_a_part_of_a_store_is_no_other_file(path, tmp_path, ending):
    part, other = path.with_name(path.name + ending), tmp_path / "other.db"
    with Store.open(other) as store:
        store.add([measurement(2)], MACHINE)
    with Store.open(path) as store:
        store.add([measurement(1)], MACHINE)
        part.touch()
        before = part.read_bytes()
        for do in (
            lambda: backup(path, part),
            lambda: backup(other, part),
            lambda: restore(part, other, replace=True),
            lambda: restore(other, part, replace=True),
            lambda: export_parquet(store, part),
            lambda: Store.open(part),
        ):
            with pytest.raises(StoreError, match=f"{part} is a part of the database {path}"):
                do()
        assert part.read_bytes() == before
        assert list(store.measurements()) == [measurement(1)]
    with Store.open(other) as store:
        assert list(store.measurements()) == [measurement(2)]


def test_a_backup_does_not_replace_a_store_in_use(path, tmp_path):
    used = tmp_path / "used.db"
    with Store.open(path) as store:
        store.add([measurement(1), measurement(2)], MACHINE)
    with Store.open(used) as store:
        store.add([measurement(3)], MACHINE)
        with pytest.raises(StoreError, match=r"used\.db is a store in use"):
            backup(path, used)
        assert [m.unit for m in store.measurements()] == [measurement(3).unit]
        assert another_process(used) == 1
    assert backup(path, used) == 2
    assert integrity(used) == ("ok",)


def test_no_other_file_is_read_or_written_in_place_of_the_store(path):
    with Store.open(path) as store:
        store.add([measurement(1)], MACHINE)
        for do in (export_parquet, import_parquet):
            with pytest.raises(StoreError, match="is the store itself, which is in use"):
                do(store, path)
        assert another_process(path) == 1
