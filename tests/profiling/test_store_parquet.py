"""What is exported can be read by others, in its types."""

import json
import math
from dataclasses import asdict, fields, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.profiling._made_up import MACHINE, OTHER_MACHINE, measurement

from hetune.profiling.records import Measurement, Status
from hetune.profiling.store import parquet
from hetune.profiling.store.parquet import export_parquet, import_parquet
from hetune.profiling.store.store import ALL, AddedCounts, Store
from hetune.variants.errors import StoreError


@pytest.fixture
def path(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "measurements.parquet"


def as_lists(value):
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def test_every_field_comes_out(store, path, monkeypatch):
    monkeypatch.setattr(parquet, "_GROUP", 2)
    later = replace(MACHINE, torch="2.10.0")
    added = [
        measurement(1),
        measurement(2, status=Status.WRONG, relative_error=math.inf, graph_features=()),
        measurement(3, launches=(), device="cuda", clocks=(1980.0, 2619.0, 1755.0, 2619.0)),
    ]
    store.add(added[:2], MACHINE)
    store.add(added[2:], later)
    assert export_parquet(store, path) == 3
    rows = pq.read_table(path).to_pylist()
    facts = [json.loads(row.pop("fingerprint")) for row in rows]
    expected = [as_lists(asdict(found)) for found in added]
    for row in expected:
        program = row["program"]
        row |= {"label": program["label"], "program": program["text"]}
    assert rows == expected
    assert facts == [MACHINE.as_dict(), MACHINE.as_dict(), later.as_dict()]


def test_columns_have_types(store, path):
    store.add([measurement(1)], MACHINE)
    export_parquet(store, path)
    schema = pq.read_schema(path)
    names = [field.name for field in fields(Measurement)]
    names.insert(names.index("program"), "label")
    assert schema.names == [*names, "fingerprint"]
    assert schema.metadata == {b"hetune_store_version": b"3"}
    assert schema.field("measured_at").type == pa.timestamp("us", tz="UTC")
    assert schema.field("samples").type == pa.list_(pa.float64())
    assert schema.field("peak_bytes").type == pa.int64()
    launch = schema.field("launches").type.value_type
    assert [launch.field(n).name for n in range(4)] == ["kernel", "family", "columns", "samples"]


def test_an_empty_store_gives_a_typed_file(store, path):
    assert export_parquet(store, path) == 0
    assert pq.read_table(path).schema.equals(parquet.SCHEMA)


def test_a_part_is_exported(store, path):
    store.add([measurement(1), measurement(2, campaign="full")], MACHINE)
    assert export_parquet(store, path, campaign="full") == 1
    store.add([measurement(1, machine=OTHER_MACHINE.digest)], OTHER_MACHINE)
    with pytest.raises(StoreError, match="name one of"):
        export_parquet(store, path)
    assert export_parquet(store, path, OTHER_MACHINE.digest) == 1
    assert export_parquet(store, path, ALL) == 3


def test_a_file_is_replaced_only_by_a_whole_one(store, path, monkeypatch):
    store.add([measurement(1)], MACHINE)
    export_parquet(store, path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "_record", fail)
    with pytest.raises(StoreError, match=r"cannot write .* \(No space left on device\)"):
        export_parquet(store, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_is_not_there(store, tmp_path):
    with pytest.raises(StoreError, match=r"No such file.*name a file in a folder that exists"):
        export_parquet(store, tmp_path / "nowhere" / "x.parquet")


def test_what_comes_out_goes_in(store, path, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_GROUP", 2)
    later = replace(MACHINE, torch="2.10.0")
    store.add(
        [measurement(1), measurement(2, status=Status.WRONG, relative_error=math.inf)], MACHINE
    )
    store.add([measurement(3, launches=(), device="cuda", clocks=(1980.0, 2619.0))], later)
    other = measurement(1, machine=OTHER_MACHINE.digest)
    store.add([other], OTHER_MACHINE)
    export_parquet(store, path, ALL)
    with Store.open(tmp_path / "other.db") as second:
        second.add([other], OTHER_MACHINE)
        assert import_parquet(second, path) == AddedCounts(3, 1)
        assert import_parquet(second, path) == AddedCounts(0, 4)

        def content(of):
            return sorted(of.with_fingerprints(ALL), key=lambda pair: repr(pair[0]))

        assert content(second) == content(store)


def test_files_that_are_none(store, path, tmp_path):
    store.add([measurement(1)], MACHINE)
    export_parquet(store, path)
    whole = path.read_bytes()
    table = pq.read_table(path)
    senseless = table.set_column(table.schema.names.index("fingerprint"), "fingerprint", [["{}"]])
    broken = {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "text": b"measurements",
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StoreError, match="name a whole file"):
            import_parquet(store, tmp_path / name)
    with pytest.raises(StoreError, match="name a whole file"):
        import_parquet(store, tmp_path / "nowhere")
    pq.write_table(table.drop_columns(["samples"]), tmp_path / "other")
    with pytest.raises(StoreError, match="of this version"):
        import_parquet(store, tmp_path / "other")
    pq.write_table(senseless.cast(parquet.SCHEMA), tmp_path / "senseless")
    with pytest.raises(StoreError, match=r"makes no sense .*not a fingerprint"):
        import_parquet(store, tmp_path / "senseless")
    assert len(store.done(MACHINE.digest)) == 1


def test_a_flipped_bit_never_changes_what_was_measured(store, path):
    store.add([measurement(1), measurement(2)], MACHINE)
    export_parquet(store, path)
    whole, expected = (
        path.read_bytes(),
        [record for group in parquet._groups(path, is_skipped=False) for record in group],
    )
    for place in range(0, len(whole), 211):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            found = [
                record for group in parquet._groups(path, is_skipped=False) for record in group
            ]
        except StoreError:
            continue
        assert found == expected, place


def test_a_record_that_makes_no_sense_is_named_or_left_out(store, path, tmp_path, caplog):
    store.add([measurement(n) for n in range(3)], MACHINE)
    export_parquet(store, path)
    table = pq.read_table(path)
    at = table.schema.names.index("samples")
    samples = table["samples"].to_pylist()
    samples[1] = [-1.0] * len(samples[1])
    table = table.set_column(at, "samples", pa.array(samples, pa.list_(pa.float64())))
    pq.write_table(table.cast(parquet.SCHEMA), path)
    with Store.open(tmp_path / "new.db") as new:
        with pytest.raises(StoreError, match=r"record 2 makes no sense .*--on-error skip"):
            import_parquet(new, path)
        assert import_parquet(new, path, on_error="skip") == AddedCounts(2, 0)
    assert "record 2 makes no sense" in caplog.text
