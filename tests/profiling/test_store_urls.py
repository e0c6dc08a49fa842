"""Servers that cannot be reached, URLs that are wrong, and passwords that nobody gets to see."""

import logging
import sys
import traceback
import uuid

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from hetune.profiling.store.connect import find
from hetune.profiling.store.faults import explained
from hetune.profiling.store.store import Store
from hetune.variants.errors import StoreError

SECRET = "s3cr3t"


def refusal(url) -> str:
    with pytest.raises(StoreError) as caught:
        Store.open(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://me@host/db", "names a database of kind 'mysql': it is the path of an SQLite"),
        ("://", "the store's URL cannot be read: it is the path"),
        (f"postgresql://me:{SECRET}@host:port/db", "the store's URL cannot be read"),
        (f"postgresql://me:p@{SECRET}@host/db", "more than one @: write the password's as %40"),
        ("sqlite://", "a store in memory would keep nothing: write sqlite:///PATH"),
        ("sqlite:///:memory:", "a store in memory would keep nothing"),
        ("sqlite://host/x", "names a host, which a file has none of: it is the path"),
    ],
)
def test_urls_that_name_no_store(url, said):
    assert said in refusal(url)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://me:{SECRET}@localhost:1/db",
        f"postgresql://me:{SECRET}@localhost:1/db?connect_timeout=2",
        f"postgresql://me@localhost:1/db?password={SECRET}",
        f"postgresql://me:{SECRET}@/db?host=/nowhere",
        f"postgresql://me:{SECRET}@localhost:1/db?sslmode={SECRET}",
    ],
)
def test_servers_that_cannot_be_reached(url, caplog):
    pytest.importorskip("psycopg")
    caplog.set_level(logging.DEBUG)
    said = refusal(url)
    assert said.startswith("cannot open the store postgresql+psycopg://me@")
    assert "check that the server runs, that it has such a database, and the host" in said
    assert SECRET not in caplog.text


def test_a_missing_driver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = refusal(f"postgresql://me:{SECRET}@localhost/db")
    assert said == (
        "the store postgresql+psycopg://me@localhost/db needs a driver: "
        "pip install '.[postgresql]' in hetune's checkout"
    )


def test_no_text_of_an_address_holds_its_password():
    address = find(f"postgres://me:{SECRET}@host/db?sslpassword={SECRET}2&application_name=x")
    assert address.place == "postgresql+psycopg://me@host/db"
    assert address.secrets == (SECRET, f"{SECRET}2")
    assert address.url.password == SECRET


class RefusedError(Exception):
    def __init__(self, text: str, sqlstate: str | None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "mend"),
    [
        (None, "check that the server runs"),
        ("08006", "check that the server runs"),
        ("42501", "have the right to read, insert and create tables granted"),
        ("25006", "the server does not take writes: set HETUNE_STORE"),
        ("53100", "free some space on the server, or set HETUNE_STORE"),
        ("53300", "the server is overloaded"),
        ("57P01", "the server was shut down"),
        ("XX000", "set HETUNE_STORE to another store"),
    ],
)
def test_what_servers_say_comes_with_a_way_to_mend_it(sqlstate, mend):
    error = RefusedError(f"no, {SECRET}\nmore", sqlstate)
    with pytest.raises(StoreError) as caught, explained("open", "db", (SECRET,)):
        raise OperationalError("SELECT 1", None, error)
    assert str(caught.value).startswith(f"cannot open the store db (no, ***): {mend}")


@pytest.mark.postgresql
def test_a_server_knows_no_such_database(postgresql_url):
    said = refusal(postgresql_url.replace("/postgres?", "/nowhere?"))
    assert 'database "nowhere" does not exist' in said


@pytest.mark.postgresql
def test_a_server_that_hangs_up_is_called_again(postgresql_url):
    """As one does that is started again: the store's idle connections are dead then."""
    name = f"idle-{uuid.uuid4().hex}"
    hang_up = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :n"
    with Store.open(f"{postgresql_url}&application_name={name}") as store:
        engine = create_engine(find(postgresql_url).url)
        with engine.connect() as connection:
            assert connection.execute(text(hang_up), {"n": name}).scalars().all() == [True]
        engine.dispose()
        assert store.summary() == ()
