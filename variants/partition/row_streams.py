"""Files of rows that are read from the first row to the last one: Arrow, Parquet, `.npz`, text."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hetune.variants.errors import InputError
from hetune.variants.graph.loaders.file_errors import reading
from hetune.variants.graph.loaders.npz_members import member_chunks, member_header
from hetune.variants.partition.row_files import RowWriter, writing

ENDINGS = (".arrow", ".feather", ".parquet", ".npz", ".csv", ".csv.gz")
WRITTEN = (".arrow", ".feather", ".parquet")
_CHUNK = 1 << 22
"""Bytes of rows that are read or written at once."""
_NPZ_NAMES = ("x", "features", "node_feat")


class RowStream:
    """A file of rows of floats.

    Tables have a column of lists of one length, or a column for each feature, as text has. Of an
    `.npz` file, the only array counts, or the one that is called x, features or node_feat.

    Args:
        path: The file.

    Raises:
        InputError: It cannot be read, or is no such file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not self.path.is_file():
            raise InputError(f"{path} is no file: give one with rows")

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and floats of each."""
        with reading(self.path, "rows", InputError):
            if self.path.suffix == ".npz":
                rows, width = member_header(self.path, self._member)[0]
                return rows, width
            if self.path.suffix == ".parquet":
                import pyarrow.parquet  # seldom needed

                schema = pyarrow.parquet.read_schema(self.path)
                count = pyarrow.parquet.read_metadata(self.path).num_rows
            else:
                schema, count = None, 0
                for batch in _batches(self.path, 1 << 10):
                    schema, count = schema or batch.schema, count + batch.num_rows
            return count, self._width(schema)

    def chunks(self) -> Iterator[np.ndarray]:
        """The rows in order, floats [n, width].

        Raises:
            InputError: They cannot be read, or are no floats.
        """
        width = self.shape[1]
        step = max(_CHUNK // (4 * width), 1)
        with reading(self.path, "rows", InputError):
            if self.path.suffix == ".npz":
                yield from member_chunks(self.path, self._member, step)
            else:
                for batch in _batches(self.path, step):
                    yield _rows(batch, width)

    def unpack(self, target: Path) -> Path:
        """Writes the rows to an `.npy` file, float32, which is there when it is complete.

        Raises:
            InputError: As of `chunks`.
            PartitionError: It cannot be written.
        """
        made, first = target.with_suffix(".part"), 0
        with RowWriter(made, *self.shape) as writer:
            for rows in self.chunks():
                writer.write(first, rows.astype(np.float32))
                first += len(rows)
            writer.sync()
        if first != self.shape[0]:
            raise InputError(f"{self.path} was written to while it was read: start again")
        made.replace(target)
        return target

    @cached_property
    def _member(self) -> str:
        with zipfile.ZipFile(self.path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
        found = names if len(names) == 1 else [name for name in _NPZ_NAMES if name in names]
        if len(found) != 1:
            raise InputError(f"{self.path} has the arrays {names}: call the features' one x")
        shape, _, dtype = member_header(self.path, found[0])
        if len(shape) != 2 or dtype.kind != "f":
            raise InputError(f"{self.path}: {found[0]} is {dtype} {list(shape)}: give float rows")
        return found[0]

    def _width(self, schema: Any) -> int:
        import pyarrow as pa

        if schema is None:
            raise InputError(f"{self.path} has no rows: give those of the nodes")
        if len(schema) == 1 and pa.types.is_fixed_size_list(schema.types[0]):
            return int(schema.types[0].list_size)
        if len(schema) == 1 and _is_list(schema.types[0]):
            for batch in _batches(self.path, 1):
                return len(batch.column(0).flatten())
        return len(schema)


def check_ending(path: Path) -> None:
    """Raises `InputError` unless rows can be written to a file of such a name."""
    if path.suffix not in (".npy", *WRITTEN):
        raise InputError(f"{path} has none of the endings .npy, {', '.join(WRITTEN)}: give one")


def pack(rows: np.ndarray, path: Path) -> None:
    """Writes rows as the column x of lists, to an Arrow or Parquet file by its ending.

    Raises:
        PartitionError: It cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet

    width = rows.shape[1]
    schema = pa.schema([("x", pa.list_(pa.float32(), width))])
    is_parquet = path.suffix == ".parquet"
    opened = pyarrow.parquet.ParquetWriter if is_parquet else pa.ipc.new_file
    step = max(_CHUNK // (4 * width), 1)
    with writing(path), path.open("wb") as file:
        with opened(file, schema) as writer:
            for first in range(0, len(rows), step):
                flat = pa.array(rows[first : first + step].reshape(-1))
                lists = pa.FixedSizeListArray.from_arrays(flat, width)
                writer.write_batch(pa.record_batch([lists], schema=schema))
        file.flush()
        os.fsync(file.fileno())


def _batches(path: Path, step: int) -> Iterator[Any]:
    """Record batches of at most so many rows, but for text."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if path.suffix == ".parquet":
        with pyarrow.parquet.ParquetFile(path) as table:
            yield from table.iter_batches(step)
    elif path.suffix in (".arrow", ".feather"):
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                batch.validate(full=True)  # which other readers do by themselves
                for first in range(0, batch.num_rows, step):
                    yield batch.slice(first, step)
    else:
        opened: Any = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as source:
            line = source.readline(_CHUNK)
        names = [str(number) for number in range(line.count(b",") + 1)]
        with pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=_CHUNK),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.float32()), null_values=[]
            ),
        ) as reader:
            yield from reader


def _rows(batch: Any, width: int) -> np.ndarray:
    import pyarrow as pa

    names, columns = batch.schema.names, batch.columns
    is_list = len(columns) == 1 and _is_list(columns[0].type)
    flat = [columns[0].flatten()] if is_list else columns
    for name, given, values in zip(names, columns, flat, strict=True):
        if not pa.types.is_floating(values.type):
            raise InputError(f"the column {name} has {values.type}: keep only columns of floats")
        if given.null_count or values.null_count:
            raise InputError(f"the column {name} has nulls: give a number everywhere")
    if not is_list:
        return np.stack([values.to_numpy(zero_copy_only=False) for values in columns], 1)
    if (np.diff(_offsets(columns[0], width)) != width).any():
        raise InputError(f"the column {names[0]} has lists of other lengths than {width}")
    found: np.ndarray = flat[0].to_numpy(zero_copy_only=False).reshape(-1, width)
    return found


def _offsets(lists: Any, width: int) -> np.ndarray:
    if hasattr(lists, "offsets"):
        return np.asarray(lists.offsets)
    return np.arange(len(lists) + 1) * width


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    is_any = pa.types.is_list(kind), pa.types.is_large_list(kind), pa.types.is_fixed_size_list(kind)
    return any(is_any)
