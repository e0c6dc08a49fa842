"""Backups: taken while others write, restored whole, and refused where they would destroy."""

import os
import sqlite3
import subprocess
import threading
import time
from collections import Counter

import pytest
from tests.profiling._made_up import MACHINE, measured, measurement, some_units, tasks_of_job

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.store.backup import backup, restore
from hetune.profiling.store.store import Store
from hetune.variants.errors import LeaseError, StoreError

from ._server import own_server

BATCH = 7
BACKUPS = 5


@pytest.fixture
def path(tmp_path):
    """A store with three measurements and a job that is half done."""
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.add([measurement(n) for n in range(3)], MACHINE)
        job = JobQueue(store).submit_units("mine", some_units(2))
        leases = Leases(store)
        lease = leases.claim("a", MACHINE.digest)
        leases.complete(lease, measured(lease), MACHINE)
        assert job.id == 1
    return path


def content(path):
    with Store.open(path) as store:
        queue = JobQueue(store)
        found = [
            (queue.get(j.id), tasks_of_job(queue, j.id), queue.log(j.id)) for j in queue.list()
        ]
        return list(store.measurements()), found


def test_there_and_back(path, tmp_path):
    before, file = content(path), tmp_path / "backup.db"
    assert backup(path, file) == 5
    assert file.stat().st_mode & 0o777 == 0o600
    assert restore(file, tmp_path / "new" / "store.db") == 5
    assert content(tmp_path / "new" / "store.db") == before
    left = {"store.db", "backup.db", "new"}
    assert {p.name for p in tmp_path.iterdir()} == left


def test_a_backup_while_others_write(tmp_path):
    """What was acknowledged before is in it, and every batch is whole."""
    path, acknowledged, over = tmp_path / "store.db", [], threading.Event()

    def write():
        with Store.open(path) as store:
            while not over.is_set():
                first = len(acknowledged) * BATCH
                store.add([measurement(first + n) for n in range(BATCH)], MACHINE)
                acknowledged.append(first)

    Store.open(path).close()
    writer = threading.Thread(target=write)
    writer.start()
    sizes = []
    try:
        for number in range(BACKUPS):
            known, end = len(acknowledged), len(acknowledged) + 3
            while len(acknowledged) < end:
                assert writer.is_alive()
                time.sleep(0.001)
            file = tmp_path / f"{number}.db"
            sizes.append(backup(path, file))
            with Store.open(file) as copy:
                batches = Counter(int(m.unit, 16) // BATCH for m in copy.measurements())
            assert set(batches.values()) == {BATCH}
            assert set(range(known)) <= set(batches)
            assert sum(batches.values()) == sizes[-1]
    finally:
        over.set()
        writer.join()
    assert sizes == sorted({*sizes})


def test_a_store_is_not_replaced_unasked(path, tmp_path):
    file = tmp_path / "backup.db"
    backup(path, file)
    with Store.open(path) as store:
        store.add([measurement(9)], MACHINE)
        lease = Leases(store).claim("late", MACHINE.digest)
    before = content(path)
    with pytest.raises(StoreError, match=r"holds 6 measurements and 1 jobs: .*--replace"):
        restore(file, path)
    assert content(path) == before
    with Store.open(path) as reader:  # who has it open sees what is restored
        assert restore(file, path, replace=True) == 5
        assert len(list(reader.measurements())) == 5
        # A worker of before has lost what it had.
        with pytest.raises(LeaseError):
            Leases(reader).complete(lease, measured(lease), MACHINE)
        again = Leases(reader).claim("b", MACHINE.digest)
        Leases(reader).complete(again, measured(again), MACHINE)
        assert JobQueue(reader).get(1).state is State.SUCCEEDED


def test_an_empty_store_is_no_loss(path, tmp_path):
    backup(path, tmp_path / "backup.db")
    Store.open(tmp_path / "new.db").close()
    assert restore(tmp_path / "backup.db", tmp_path / "new.db") == 5


def damaged(file):
    content = bytearray(file.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    file.write_bytes(content)


def of_a_newer_release(file):
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE profiling_migrations SET version_num = '9999'")
    connection.close()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (damaged, "damaged|malformed|no database"),
        (lambda file: file.write_bytes(b"not a database" * 100), "the file is no database"),
        (lambda file: file.unlink(), "there is no backup at"),
        (of_a_newer_release, "upgrade hetune"),
    ],
    ids=["damaged", "other", "missing", "newer"],
)
def test_what_is_no_backup_changes_nothing(path, tmp_path, harm, said):
    file = tmp_path / "backup.db"
    backup(path, file)
    before = content(path)
    harm(file)
    with pytest.raises(StoreError, match=said):
        restore(file, path, replace=True)
    assert content(path) == before


def test_a_log_that_a_kill_has_left_is_not_taken_for_the_new_backup_s(path, tmp_path):
    file, log = tmp_path / "backup.db", tmp_path / "backup.db-wal"
    backup(path, file)
    with Store.open(file) as written:
        written.add([measurement(7)], MACHINE)
        left = log.read_bytes()
    with Store.open(path) as store:
        store.add([measurement(9)], MACHINE)
    log.write_bytes(left)
    assert backup(path, file) == 6
    assert not log.exists()
    assert content(file) == content(path)


@pytest.mark.parametrize("harm", [damaged, of_a_newer_release])
def test_what_cannot_be_opened_any_more_is_replaced(path, tmp_path, harm):
    before, file = content(path), tmp_path / "backup.db"
    backup(path, file)
    harm(path)
    with pytest.raises(StoreError):
        restore(file, path)
    assert restore(file, path, replace=True) == 5
    assert content(path) == before


@pytest.mark.parametrize("harm", [b"not a database" * 100, b"not a database" * 10000])
def test_what_is_no_database_is_not_replaced(path, tmp_path, harm):
    file = tmp_path / "backup.db"
    backup(path, file)
    path.write_bytes(harm)
    with pytest.raises(StoreError, match="the file is no database: move it away"):
        restore(file, path, replace=True)
    assert path.read_bytes() == harm


def test_what_cannot_be_backed_up(path, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for url, file, said in (
        (tmp_path / "none.db", tmp_path / "b.db", "there is no store at"),
        (path, path, "is the store itself"),
        (path, tmp_path / "pipe", "pipe is no regular file"),
        (path, tmp_path / "none" / "b.db", "No such file or directory"),
        ("postgresql+psycopg://me:s3cret@host/db", tmp_path / "b.db", "pg_dump"),
    ):
        with pytest.raises(StoreError, match=said) as caught:
            backup(url, file)
        assert "s3cret" not in str(caught.value)
    assert {p.name for p in tmp_path.iterdir()} == {"store.db", "pipe"}


@pytest.mark.slow
@pytest.mark.postgresql
def test_a_server_s_programs(tmp_path):
    """Those that the documents and the message name, over a server that is new."""
    with own_server() as server, Store.open(server.url) as store:
        store.add([measurement(n) for n in range(3)], MACHINE)
        JobQueue(store).submit_units("mine", some_units(1))
        file = tmp_path / "backup.dump"
        options = ("--host", str(server.folder), "--username=hetune")
        dump = ("--format=custom", "--table=profiling_*", f"--file={file}", "postgres")
        subprocess.run([server.programs / "pg_dump", *options, *dump], check=True)
        store.add([measurement(9)], MACHINE)
        subprocess.run([server.programs / "createdb", *options, "new"], check=True)
        back = ("--dbname=new", str(file))
        subprocess.run([server.programs / "pg_restore", *options, *back], check=True)
        with Store.open(server.url.replace("/postgres?", "/new?")) as new:
            assert list(new.measurements()) == [measurement(n) for n in range(3)]
            assert [job.campaign for job in JobQueue(new).list()] == ["mine"]
            new.add([measurement(4)], MACHINE)
