"""Rows in files of many kinds are those of an `.npy` file, and results may be such files."""

import gzip
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from hetune.variants.errors import InputError
from hetune.variants.partition import row_streams
from hetune.variants.partition.row_streams import RowStream, pack

ROWS = np.random.default_rng(0).standard_normal((90, 7), np.float32)
LISTS = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.reshape(-1)), 7)
COLUMNS = pa.table({str(i): ROWS[:, i] for i in range(7)})


def written(kind, folder):
    ending = kind.split()[-1]
    path = folder / f"rows{ending}"
    match kind:
        case "lists .parquet":
            table = pa.table({"x": LISTS.cast(pa.list_(pa.float32()))})
            pa.parquet.write_table(table, path, row_group_size=40)
        case "fixed .parquet":
            pa.parquet.write_table(pa.table({"x": LISTS}), path)
        case "columns .parquet":
            pa.parquet.write_table(COLUMNS, path, row_group_size=40)
        case "lists .arrow":
            with pa.ipc.new_file(path, pa.schema([("x", LISTS.type)])) as writer:
                writer.write_table(pa.table({"x": LISTS}), 40)
        case "columns .feather":
            pa.feather.write_feather(COLUMNS, path, compression="lz4")
        case "one .npz":
            np.savez_compressed(path, any=ROWS.astype(np.float64))
        case "several .npz":
            np.savez(path, edge_index=np.zeros((2, 3), int), node_feat=ROWS)
        case _:
            opened = gzip.open if kind.endswith("gz") else open
            with opened(path, "wb") as file:
                np.savetxt(file, ROWS, "%.9g", ",")
    return path


@pytest.mark.parametrize(
    "kind",
    [
        *("lists .parquet", "fixed .parquet", "columns .parquet", "lists .arrow"),
        *("columns .feather", "one .npz", "several .npz", ".csv", ".csv.gz"),
    ],
)
def test_rows_are_those_of_the_file(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(row_streams, "_CHUNK", 4 * 7 * 25)
    found = RowStream(written(kind, tmp_path))
    assert found.shape == ROWS.shape
    assert "csv" in kind or next(map(len, found.chunks())) == 25
    assert np.array_equal(np.load(found.unpack(tmp_path / "x.npy")), ROWS)


@pytest.mark.parametrize("ending", row_streams.WRITTEN)
def test_rows_that_are_written_are_read(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(row_streams, "_CHUNK", 4 * 7 * 25)
    path = tmp_path / f"out{ending}"
    pack(ROWS, path)
    assert np.array_equal(np.concatenate([*RowStream(path).chunks()]), ROWS)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": [1.0], "id": [7]}, "the column id has int64"),
        ({"a": [1.0, None]}, "the column a has nulls"),
        ({"a": [[1.0, 2.0], [1.0]]}, "the column a has lists of other lengths than 2"),
        ({"a": [[1.0, 2.0], None]}, "the column a has nulls"),
        ({"a": ["1.0"]}, "the column a has string"),
    ],
)
def test_what_is_no_row_of_floats_is_refused(table, message, tmp_path):
    pa.parquet.write_table(pa.table(table), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=rf"x\.parquet: {message}"):
        list(RowStream(tmp_path / "x.parquet").chunks())


def test_files_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / "x.arrow"
    with pytest.raises(InputError, match=r"x\.arrow is no file"):
        RowStream(path)
    path.write_bytes(b"what is no table")
    with pytest.raises(InputError, match=r"x\.arrow cannot be read as rows"):
        list(RowStream(path).chunks())
    np.savez(tmp_path / "x.npz", a=ROWS, b=ROWS)
    with pytest.raises(InputError, match="call the features' one x"):
        list(RowStream(tmp_path / "x.npz").chunks())
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"x\.csv cannot be read as rows"):
        list(RowStream(tmp_path / "x.csv").chunks())


def test_lists_that_were_damaged_are_refused(tmp_path):
    path = tmp_path / "x.arrow"
    lists = pa.array(ROWS.tolist(), pa.list_(pa.float32()))
    with pa.ipc.new_file(path, pa.schema([("x", lists.type)])) as writer:
        writer.write_batch(pa.record_batch([lists], names=["x"]))
    offsets = np.asarray(lists.offsets)
    path.write_bytes(path.read_bytes().replace(offsets.tobytes(), (offsets + 7 * 30).tobytes()))
    with pytest.raises(InputError, match=r"x\.arrow cannot be read as rows"):
        list(RowStream(path).chunks())


def test_a_line_without_an_end_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(row_streams, "_CHUNK", 1 << 12)
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"1" * (1 << 23)))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="cannot be read as rows"):
            list(RowStream(path).chunks())
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [40, 95])
def test_a_file_that_changes_while_it_is_unpacked_is_refused(count, tmp_path):
    path = tmp_path / "x.parquet"
    pa.parquet.write_table(COLUMNS, path)
    found = RowStream(path)
    assert found.shape == (90, 7)
    pa.parquet.write_table(pa.concat_tables([COLUMNS, COLUMNS]).slice(0, count), path)
    with pytest.raises(InputError, match="was written to while it was read"):
        found.unpack(tmp_path / "x.npy")
    assert not (tmp_path / "x.npy").exists()
