"""Migrations: what older releases left is adopted, whole or not at all; the models agree."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text
from tests.profiling._made_up import MACHINE, lease_of, measured, measurement, some_units

from hetune.profiling.jobs.leases import Leases
from hetune.profiling.jobs.queue import JobQueue
from hetune.profiling.jobs.records import State
from hetune.profiling.jobs.results import results
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.problem import units_of
from hetune.profiling.store import migrations
from hetune.profiling.store.connect import find
from hetune.profiling.store.migrations.revision import REVISION, REVISIONS_TABLE
from hetune.profiling.store.problems import select
from hetune.profiling.store.rows import to_row
from hetune.profiling.store.schema import metadata
from hetune.profiling.store.store import AddedCounts, Store
from hetune.variants.errors import StoreError
from hetune.variants.frontend.presets import LAYERS, preset_program
from hetune.variants.program.labeled import LabeledProgram

SCHEMAS = Path(__file__).with_name("schemas")
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OPENERS = 4
NAMES = {"layer", "d_in", "d_out", "heads"}
STORED = json.loads((SCHEMAS / "e77e750.json").read_text(encoding="utf-8"))
"""What that revision stored of a campaign of layers and kernels that was also a job, and another.

Rows by table.
"""


def execute(url, *statements):
    engine = create_engine(find(url).url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def make_old(url):
    """A database without rows as `e77e750` made it."""
    kind = find(url).url.get_backend_name()
    script = (SCHEMAS / f"e77e750-{kind}.sql").read_text(encoding="utf-8")
    execute(url, *(statement for statement in script.split(";\n") if statement.strip()))


def insert(table, **values):
    """An INSERT, written out as an older release's would be."""
    given = ", ".join(_literal(value) for value in values.values())
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({given})"


def _literal(value):
    if isinstance(value, dict | list | tuple):
        value = json.dumps(value)
    if isinstance(value, datetime):
        value = value.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, str):
        # A colon is what SQLAlchemy takes for a parameter.
        return "'" + value.replace("'", "''").replace(":", "\\:") + "'"
    return "NULL" if value is None else str(value)


def make_stored(url):
    """A database that `STORED` is in."""
    make_old(url)
    execute(url, *(insert(table, **row) for table, rows in STORED.items() for row in rows))


def named(layer, d_in, d_out, heads):
    return LabeledProgram.of(preset_program(layer, d_in, d_out, heads))


def old_rows():
    """A measurement, and a job whose only unit is leased for the third time."""
    row = to_row(measurement(0), MACHINE.digest)
    del row["program"]
    named = {"layer": "rgat", "d_in": 32, "d_out": 64, "heads": 2}
    row |= named
    unit, _ = some_units(1)
    facts = MACHINE.as_dict()
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    fingerprint = {"machine": MACHINE.digest, "facts_sha256": digest, "facts": facts}
    job = {
        "campaign": "mine",
        "digest": "d",
        "limits": asdict(Limits()),
        "retrain": False,
        "machine": MACHINE.digest,
        "state": "running",
        "cancel_requested": False,
        "error": "",
        "created": START,
    }
    leased = {
        "job": 1,
        "is_training": False,
        "problem": {"graph": asdict(unit.problem.graph), **named, "threads": 4},
        "variants": [[u.variant, u.plan] for u in some_units(1)],
        "size": 2,
        "state": "running",
        "attempt": 3,
        "token": 3,
        "owner": "a",
        "machine": MACHINE.digest,
        "lease_expires": START + timedelta(seconds=60),
        "endings": {},
        "error": "",
    }
    return [
        insert("profiling_fingerprints", **fingerprint),
        insert("profiling_measurements", **row, fingerprint=1),
        insert("profiling_jobs", **job),
        insert("profiling_job_units", **leased),
        insert("profiling_job_log", job=1, moment=START, line="submitted"),
    ]


def differences(url):
    """Between the models and what a database has."""
    engine = create_engine(find(url).url)
    with engine.connect() as connection:
        options = {"version_table": REVISIONS_TABLE}
        found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    engine.dispose()
    return found


def tables(url):
    engine = create_engine(find(url).url)
    found = {
        table: {column["name"] for column in inspect(engine).get_columns(table)}
        for table in inspect(engine).get_table_names()
    }
    engine.dispose()
    return found


class Migrations:
    def test_models_and_migrations_agree(self, url):
        Store.open(url).close()
        assert differences(url) == []

    def test_what_older_releases_left_is_adopted(self, url):
        make_old(url)
        before = tables(url)
        Store.open(url).close()
        assert differences(url) == []
        after = tables(url)
        assert before.pop("profiling_schema")
        assert "profiling_schema" not in after
        gone = NAMES | {"claim_key"}
        assert all(columns - gone <= after[name] for name, columns in before.items())

    def test_what_is_older_still_is_refused(self, url):
        make_old(url)
        execute(url, f"UPDATE {REVISIONS_TABLE} SET version_num = '0002'")
        with pytest.raises(StoreError, match="revision 0002, which this hetune does not know"):
            Store.open(url)

    def test_nothing_is_lost(self, url):
        make_old(url)
        execute(url, *old_rows())
        with Store.open(url) as store:
            [found] = store.measurements()
            assert found == measurement(0)
            assert (found.device, found.clocks) == ("cpu", ())
            queue = JobQueue(store, clock=lambda: START)
            [job] = queue.list()
            assert (job.campaign, job.state, job.progress.problems) == ("mine", State.RUNNING, 1)
            assert [line.text for line in queue.log(job.id)] == ["submitted"]
            # A worker of before may go on: its lease holds.
            leases = Leases(store, clock=lambda: START)
            lease = lease_of(leases, 1)
            assert leases.complete(lease, measured(lease), MACHINE) == AddedCounts(2, 0)
            assert queue.get(job.id).state is State.SUCCEEDED

    def test_many_adopt_it_at_once(self, url):
        make_old(url)
        execute(url, *old_rows())
        barrier = Barrier(OPENERS)

        def open_it(_):
            barrier.wait()
            with Store.open(url) as store:
                return len(list(store.measurements()))

        with ThreadPoolExecutor(OPENERS) as pool:
            assert list(pool.map(open_it, range(OPENERS))) == [1] * OPENERS
        assert differences(url) == []

    def test_a_step_that_fails_leaves_all_as_it_was(self, url):
        make_old(url)
        execute(url, *old_rows())
        # In the way of the step's second statement.
        execute(url, "ALTER TABLE profiling_measurements ADD COLUMN program TEXT")
        before = tables(url)
        with pytest.raises(StoreError, match="program"):
            Store.open(url)
        assert tables(url) == before
        execute(url, "ALTER TABLE profiling_measurements DROP COLUMN program")
        with Store.open(url) as store:
            assert len(list(store.measurements())) == 1
        assert differences(url) == []

    def test_layers_by_name_become_programs(self, url):
        make_stored(url)
        before = STORED["profiling_measurements"]
        with Store.open(url) as store:
            found = list(store.measurements())
            assert [m.program.label for m in found] == [row["layer"] for row in before]
            for measured_one, row in zip(found, before, strict=True):
                widths = row["d_in"], row["d_out"], row["heads"]
                assert measured_one.program == named(row["layer"], *widths)
                assert (measured_one.program.d_in, measured_one.program.d_out) == widths[:2]
                assert list(measured_one.samples) == row["samples"]
                assert measured_one.variant == row["variant"]
            assert {p.program for p in select(store).problems} == {
                m.program for m in found if m.program.label in LAYERS
            }
        assert differences(url) == []

    def test_what_was_measured_of_a_job_counts_as_done(self, url):
        """A graph whose recipe nothing tells is measured again."""
        make_stored(url)
        with Store.open(url) as store:
            [job] = JobQueue(store).list()
            measured_of = {
                result.problem.program: {m.variant for m in result.variants}
                for result in results(store, job.id)
            }
            units = [u for u in STORED["profiling_job_units"] if u["problem"]]
            assert measured_of == {
                named(*(u["problem"][name] for name in ("layer", "d_in", "d_out", "heads"))): {
                    variant for variant, _ in u["variants"]
                }
                for u in units
            }
            done = store.done(STORED["profiling_measurements"][0]["machine"])
            for result in results(store, job.id):
                known = {unit.variant for unit in units_of(result.problem) if unit.key in done}
                assert known == measured_of[result.problem.program]
            rows = STORED["profiling_measurements"]
            assert {row["unit"] for row in rows if row["campaign"] == "alone"} <= done


class TestSqlite(Migrations):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.mark.postgresql
class TestPostgresql(Migrations):
    @pytest.fixture
    def url(self, postgresql_url):
        return postgresql_url


def test_the_last_step_is_what_stores_are_brought_to():
    script = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert script.get_heads() == [REVISION]
