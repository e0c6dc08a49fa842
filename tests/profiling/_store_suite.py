"""What stores promise, whatever the database: subclass it, and give it a fixture `url`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from threading import Barrier
from typing import Any

from sqlalchemy import create_engine, text
from tests.profiling._forked import run
from tests.profiling._made_up import MACHINE, OTHER_MACHINE, OTHER_PROGRAM, measurement

from hetune.profiling.records import LaunchRecord, Status
from hetune.profiling.store.connect import find
from hetune.profiling.store.prune import Prune, matching, remove
from hetune.profiling.store.store import ALL, AddedCounts, Store, Tally
from hetune.variants.errors import InputError, StoreError

_WRITERS = 4
_KILLS = 8


class StoreConformance:
    """What every store does, whichever database it is in."""

    def test_a_new_store_is_empty(self, url: str) -> None:
        """Questions have answers before anything was added."""
        with Store.open(url) as store:
            assert list(store.measurements()) == []
            assert list(store.measurements(ALL)) == []
            assert store.done(MACHINE.digest) == set()
            assert store.machines() == ()
            assert store.summary() == ()
            assert store.add([], MACHINE) == AddedCounts(0, 0)
            assert store.machines() == ()

    def test_what_goes_in_comes_out(self, url: str) -> None:
        """To the last bit, in the order of adding, through another connection."""
        added = [
            measurement(3),
            measurement(1, status=Status.WRONG, relative_error=math.inf),
            measurement(2, status=Status.TIMEOUT, graph_features=(), peak_bytes=2**62),
            measurement(4, status=Status.FAILED, error="Grüße 图 🙂\n'; DROP TABLE x; --\\ %s :a"),
            measurement(5, launches=(), samples=(0.1 + 0.2, 1e-9, 86_400.0)),
            measurement(6, launches=(LaunchRecord("k", "f", (1e18, 5e-324), (1 / 3, 0.0)),)),
            measurement(7, device="cuda", clocks=(1980.0, 2619.0, 0.1 + 0.2, 2619.0)),
        ]
        with Store.open(url) as store:
            store.add(added[:3], MACHINE)
            store.add(added[3:], MACHINE)
        with Store.open(url) as store:
            assert list(store.measurements()) == added

    def test_numbers_that_are_none(self, url: str) -> None:
        """Where nothing was measured there is no number."""
        unknown = measurement(status=Status.MEMORY, relative_error=math.nan, drift=math.nan)
        with Store.open(url) as store:
            store.add([unknown], MACHINE)
            [found] = store.measurements()
        assert math.isnan(found.relative_error)
        assert math.isnan(found.drift)
        assert replace(found, relative_error=0.0, drift=0.0) == replace(
            unknown, relative_error=0.0, drift=0.0
        )

    def test_moments_are_moments_wherever_they_were_taken(self, url: str) -> None:
        """Times of day come back in UTC."""
        east = timezone(timedelta(hours=5, minutes=30))
        there = measurement(measured_at=datetime(2026, 1, 1, 2, 0, 0, 1, east))
        with Store.open(url) as store:
            store.add([there], MACHINE)
            [found] = store.measurements()
        assert found.measured_at == there.measured_at
        assert found.measured_at.utcoffset() == timedelta(0)

    def test_texts_that_databases_refuse_are_mended(self, url: str) -> None:
        """What a dying process says may hold anything."""
        with Store.open(url) as store:
            store.add([measurement(status=Status.FAILED, error="a\0b\udcffc")], MACHINE)
            [found] = store.measurements()
        assert found.error == "a\ufffdb?c"

    def test_the_first_measurement_of_a_unit_stays(self, url: str) -> None:
        """Adding again is no error, changes nothing, and is counted."""
        with Store.open(url) as store:
            assert store.add([measurement(1), measurement(2)], MACHINE) == AddedCounts(2, 0)
            again = [measurement(2, campaign="late"), measurement(3), measurement(1)]
            assert store.add(again, MACHINE) == AddedCounts(1, 2)
            assert store.add([measurement(1)], MACHINE) == AddedCounts(0, 1)
            assert list(store.measurements()) == [measurement(n) for n in (1, 2, 3)]

    def test_the_first_measurement_in_a_batch_stays(self, url: str) -> None:
        """The same within one batch, which keeps its order."""
        with Store.open(url) as store:
            batch = [measurement(2), measurement(1), measurement(2, campaign="late")]
            assert store.add(batch, MACHINE) == AddedCounts(2, 1)
            assert list(store.measurements()) == batch[:2]

    def test_large_batches(self, url: str) -> None:
        """More than a page, and more than a statement takes, with half of them known."""
        batch = [measurement(n, launches=()) for n in range(1400)]
        with Store.open(url) as store:
            assert store.add(batch[::2], MACHINE) == AddedCounts(700, 0)
            assert store.add(batch, MACHINE) == AddedCounts(700, 700)
            assert list(store.measurements()) == batch[::2] + batch[1::2]
            assert store.done(MACHINE.digest) == {m.unit for m in batch}

    def test_a_batch_with_a_bad_record_adds_nothing(self, url: str) -> None:
        """What contradicts itself is refused, for it could never be mended."""
        launch = measurement().launches[0]
        bad: list[tuple[dict[str, Any], str]] = [
            ({"machine": OTHER_MACHINE.digest}, OTHER_MACHINE.digest),
            ({"samples": ()}, "0 samples"),
            ({"samples": (1.0, math.nan)}, "no time"),
            ({"samples": (1.0, math.inf)}, "no time"),
            ({"samples": (1.0, -1.0)}, "no time"),
            ({"samples": (1.0, 1e-320)}, "no time"),
            ({"samples": (1.0, 0.0)}, "no time"),
            ({"samples": (86_401.0,)}, "no time"),
            ({"samples": (1.0,) * 10_001}, "more than 10000 numbers"),
            ({"launches": (replace(launch, samples=(1e-320,)),)}, "no time"),
            ({"launches": (replace(launch, columns=(1e300,)),)}, "larger than"),
            ({"threads": -1}, "threads is -1"),
            ({"threads": 2**63}, "threads is"),
            ({"peak_bytes": 1.5}, "peak_bytes is 1.5"),
            ({"prepare_seconds": -1.0}, "prepare_seconds is -1.0"),
            ({"drift": -0.1}, "drift is -0.1"),
            ({"error": "x" * 100_001}, "error is no text"),
            ({"launches": (replace(launch, samples=()),)}, "no samples"),
            ({"launches": (replace(launch, samples=(math.nan,)),)}, "no time"),
            ({"launches": (replace(launch, columns=(math.inf,)),)}, "not finite"),
            ({"graph_features": (math.nan,)}, "not finite"),
            ({"preparation": (math.nan,)}, "not finite"),
            ({"clocks": (math.nan,)}, "not finite"),
            ({"status": Status.WRONG, "samples": (1.0,)}, "1 samples"),
            ({"status": Status.WRONG, "launches": (launch,)}, "times of launches"),
            ({"measured_at": datetime(2026, 1, 1)}, "time zone"),
        ]
        with Store.open(url) as store:
            for changes, reason in bad:
                batch = [measurement(1), measurement(2, **changes)]
                said = _refusal(partial(store.add, batch, MACHINE))
                assert reason in said, said
                assert f"hybrid/b2 on hub (unit {'0' * 12})" in said, said
            assert list(store.measurements()) == []

    def test_machines_are_not_mixed_unless_asked(self, url: str) -> None:
        """With several machines, one must be named; all of them must be, too."""
        other = measurement(1, machine=OTHER_MACHINE.digest)
        with Store.open(url) as store:
            store.add([measurement(1), measurement(2)], MACHINE)
            assert len(list(store.measurements())) == 2
            assert store.add([other], OTHER_MACHINE) == AddedCounts(1, 0)
            said = _refusal(store.measurements)  # at once, not when the first one is read
            assert f"{MACHINE.digest} (A processor, 2)" in said, said
            assert f"{OTHER_MACHINE.digest} (Another processor, 1)" in said, said
            assert list(store.measurements(OTHER_MACHINE.digest)) == [other]
            assert len(list(store.measurements(MACHINE.digest))) == 2
            assert len(list(store.measurements(ALL))) == 3
            assert list(store.measurements("unknown")) == []
            assert store.done(OTHER_MACHINE.digest) == {other.unit}
            assert [m.digest for m in store.machines()] == [MACHINE.digest, OTHER_MACHINE.digest]
            assert [m.measurements for m in store.machines()] == [2, 1]

    def test_a_fingerprint_travels_with_every_measurement(self, url: str) -> None:
        """Also with what does not make another machine, as a release of a package."""
        later = replace(MACHINE, torch="2.10.0")
        assert later.digest == MACHINE.digest
        with Store.open(url) as store:
            store.add([measurement(1)], MACHINE)
            store.add([measurement(2)], later)
            store.add([measurement(3)], MACHINE)
            [known] = store.machines()
            assert (known.fingerprints, known.measurements) == ((MACHINE, later), 3)
            found = [(m.unit[-1], facts) for m, facts in store.with_fingerprints()]
            assert found == [("1", MACHINE), ("2", later), ("3", MACHINE)]

    def test_choosing(self, url: str) -> None:
        """Each limit on its own, and together."""
        added = [
            measurement(1, campaign="a", family="x"),
            measurement(2, campaign="a", program=OTHER_PROGRAM, family="y", status=Status.WRONG),
            measurement(
                3, campaign="b", program=OTHER_PROGRAM, family="x", protocol=99, device="cuda"
            ),
        ]
        with Store.open(url) as store:
            store.add(added, MACHINE)

            def found(**wanted: Any) -> str:
                return "".join(m.unit[-1] for m in store.measurements(**wanted))

            assert found(campaign="a") == "12"
            assert found(campaign="c") == ""
            assert found(status=Status.OK) == "13"
            assert found(labels=["mean"]) == found(labels={"mean", "other"}) == "23"
            assert found(labels=[]) == ""
            assert (found(device="cpu"), found(device="cuda")) == ("12", "3")
            assert found(campaign=None, status=None, labels=None) == "123"
            assert found(campaign="a", labels=["mean"], machine=MACHINE.digest) == "2"
            assert "label" in _refusal(lambda: found(label="mean"), TypeError)

    def test_summary(self, url: str) -> None:
        """Counts, sorted."""
        other = OTHER_MACHINE.digest
        with Store.open(url) as store:
            store.add([measurement(n) for n in range(3)], MACHINE)
            store.add([measurement(3, status=Status.TIMEOUT)], MACHINE)
            store.add([measurement(1, machine=other, program=OTHER_PROGRAM)], OTHER_MACHINE)
            expected = (
                Tally(MACHINE.digest, "smoke", "attentive", Status.OK, 3),
                Tally(MACHINE.digest, "smoke", "attentive", Status.TIMEOUT, 1),
                Tally(other, "smoke", "mean", Status.OK, 1),
            )
            assert store.summary() == tuple(sorted(expected, key=lambda t: t.machine))

    def test_who_reads_sees_what_was_there_when_it_began(self, url: str) -> None:
        """And keeps nobody from writing."""
        with Store.open(url) as store, Store.open(url) as writer:
            writer.add([measurement(n) for n in range(600)], MACHINE)
            reading = store.measurements()
            first = next(reading)
            writer.add([measurement(n) for n in range(600, 700)], MACHINE)
            assert [first, *reading] == [measurement(n) for n in range(600)]
            assert len(list(store.measurements())) == 700

    def test_another_version_of_the_tables_is_refused(self, url: str) -> None:
        """With what to do about it."""
        Store.open(url).close()
        for statement, found, advice in (
            (
                "UPDATE profiling_migrations SET version_num = '9999'",
                "revision 9999",
                "upgrade hetune, or set",
            ),
            ("UPDATE profiling_migrations SET version_num = '0002'", "revision 0002", "know: set"),
            ("DELETE FROM profiling_migrations", "no revision", "know: set"),
        ):
            _execute(url, statement)
            said = _refusal(lambda: Store.open(url))
            assert f"tables of {found}, which this hetune does not know" in said, said
            assert f"{advice} HETUNE_STORE to another store" in said, said

    def test_damaged_records_are_left_out(self, url: str) -> None:
        """A record that is none, or out of bounds, counts as none, and a log line counts them."""
        harms = (
            ("status", "so-so"),
            ("samples", "7"),
            ("samples", "[1e-320]"),
            ("samples", '["a"]'),
            ("launches", "[[1]]"),
            ("graph_features", "[1e300]"),
            ("threads", "-1"),
        )
        with Store.open(url) as store, _logged() as lines:
            store.add([measurement(n) for n in range(1 + len(harms))], MACHINE)
            for number, (column, value) in enumerate(harms, 1):
                unit = measurement(number).unit
                _execute(
                    url,
                    f"UPDATE profiling_measurements SET {column} = '{value}' WHERE unit = '{unit}'",
                )
            assert list(store.measurements()) == [measurement(0)]
            [line] = lines
            assert line.startswith(f"{len(harms)} measurements in {store.place} are damaged"), line
            assert "hetune store prune --damaged" in line
            assert sum(tally.count for tally in store.summary()) == len(harms)
            ids = matching(store, Prune(damaged=True))
            assert (len(ids), remove(store, ids)) == (len(harms), len(harms))
            assert matching(store, Prune(damaged=True)) == ()
            _execute(url, "UPDATE profiling_fingerprints SET facts = '[]'")
            assert (list(store.measurements()), store.machines()) == ([], ())
            assert len(matching(store, Prune(damaged=True))) == 1

    def test_what_is_removed_is_gone(self, url: str) -> None:
        """What meets all that is asked, and machines that have nothing left."""
        other = OTHER_MACHINE.digest
        with Store.open(url) as store:
            store.add([measurement(1), measurement(2, campaign="a")], MACHINE)
            store.add([measurement(n, machine=other, campaign="a") for n in (3, 4)], OTHER_MACHINE)
            assert "nothing says which" in _refusal(lambda: matching(store, Prune()), InputError)
            assert matching(store, Prune(machine="none")) == ()
            ids = matching(store, Prune(machine=MACHINE.digest, campaign="a"))
            assert remove(store, ids) == 1
            assert remove(store, ids) == 0
            assert [m.unit for m in store.measurements(MACHINE.digest)] == [measurement(1).unit]
            assert remove(store, matching(store, Prune(campaign="a"))) == 2
            assert [machine.digest for machine in store.machines()] == [MACHINE.digest]
            assert store.add([measurement(3, machine=other)], OTHER_MACHINE) == AddedCounts(1, 0)

    def test_many_create_a_store_at_once(self, url: str) -> None:
        """One makes the tables, and the others find them."""
        barrier = Barrier(2 * _WRITERS)

        def create(_: int) -> None:
            barrier.wait()
            Store.open(url).close()

        with ThreadPoolExecutor(barrier.parties) as pool:
            list(pool.map(create, range(barrier.parties)))
        with Store.open(url) as store:
            assert store.machines() == ()

    def test_many_writers_at_once(self, url: str) -> None:
        """Each adds the same units in another order."""

        def write(number: int) -> int:
            units = [measurement(n) for n in range(40)]
            units = units[number * 10 :] + units[: number * 10]
            new = 0
            with Store.open(url) as store:
                for start in range(0, 40, 8):
                    new += store.add(units[start : start + 8], MACHINE).new
            return new

        with ThreadPoolExecutor(_WRITERS) as pool:
            assert sum(pool.map(write, range(_WRITERS))) == 40
        with Store.open(url) as store:
            assert len(list(store.measurements())) == 40
            assert len(store.machines()[0].fingerprints) == 1

    def test_threads_share_a_store(self, url: str) -> None:
        """One store, many threads that read and write."""
        with Store.open(url) as store:

            def work(number: int) -> int:
                store.add([measurement(number)], MACHINE)
                return len(list(store.measurements()))

            with ThreadPoolExecutor(_WRITERS) as pool:
                counts = list(pool.map(work, range(12)))
            assert max(counts) == 12
            assert all(count >= 1 for count in counts)

    def test_killed_writers_leave_whole_batches(self, url: str) -> None:
        """SIGKILL at random points: what was acknowledged is there, and nothing in halves."""
        done = run("killed_writers", url, str(_KILLS))
        assert done.returncode == 0, done.stderr
        assert f"{_KILLS} writers killed" in done.stdout, done.stdout


def _refusal(call: Callable[[], object], kind: type[Exception] = StoreError) -> str:
    """What the error says that a call raises."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("it was not refused")


@contextmanager
def _logged() -> Iterator[list[str]]:
    """What is logged meanwhile about records."""
    lines = list[str]()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, handler = logging.getLogger("hetune.profiling.store.reading"), Handler()
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def _execute(url: str, statement: str) -> None:
    engine = create_engine(find(url).url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()
