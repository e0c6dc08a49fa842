"""Measurements as a Parquet file: for tools that read no store of ours, and for other stores."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, Unpack

import pyarrow as pa
import pyarrow.parquet as pq

from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.records import LaunchRecord, Measurement, Status
from hetune.profiling.store.engines import check_unused
from hetune.profiling.store.filters import Filters
from hetune.profiling.store.rows import check_row
from hetune.profiling.store.store import AddedCounts, Store
from hetune.variants.errors import ProgramError, StoreError
from hetune.variants.program.labeled import LabeledProgram
from hetune.variants.registry.atomic_files import replacing

_GROUP = 2000
_log = logging.getLogger(__name__)
_VERSION = 3  # of the columns
_FLOATS = pa.list_(pa.float64())
_LAUNCH_FIELDS = {
    "kernel": pa.string(),
    "family": pa.string(),
    "columns": _FLOATS,
    "samples": _FLOATS,
}
# In the order of the record; the machine's facts come last.
SCHEMA = pa.schema(
    [
        ("unit", pa.string()),
        ("campaign", pa.string()),
        ("machine", pa.string()),
        ("graph", pa.string()),
        ("graph_fingerprint", pa.string()),
        ("family", pa.string()),
        ("graph_features", _FLOATS),
        ("label", pa.string()),
        ("program", pa.string()),
        ("threads", pa.int64()),
        ("variant", pa.string()),
        ("plan", pa.string()),
        ("status", pa.string()),
        ("error", pa.string()),
        ("samples", _FLOATS),
        ("launches", pa.list_(pa.struct(list(_LAUNCH_FIELDS.items())))),
        ("prepare_seconds", pa.float64()),
        ("preparation", _FLOATS),
        ("relative_error", pa.float64()),
        ("peak_bytes", pa.int64()),
        ("drift", pa.float64()),
        ("protocol", pa.int64()),
        ("code_version", pa.string()),
        ("measured_at", pa.timestamp("us", tz="UTC")),
        ("device", pa.string()),
        ("clocks", _FLOATS),
        ("fingerprint", pa.string()),
    ],
    metadata={"hetune_store_version": str(_VERSION)},
)


def export_parquet(
    store: Store, path: str | Path, machine: str | None = None, **wanted: Unpack[Filters]
) -> int:
    """Write measurements to a file, a row each; the file appears only when it is whole.

    The columns are the fields of `hetune.profiling.records.Measurement`, in their types;
    `program` is the program's text, `label` its label, and `fingerprint` what was known of the
    machine, as JSON.

    Args:
        store: Where the measurements are.
        path: File to write, or to replace.
        machine: As in `Store.measurements`.
        **wanted: Likewise.

    Returns:
        The number of rows.

    Raises:
        StoreError: As `Store.measurements`, or the file cannot be written, or is the store.
    """
    path = Path(path)
    check_unused(path)
    rows = store.with_fingerprints(machine, **wanted)
    try:
        with replacing(path) as file:
            return _write(rows, file)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"cannot write {path} ({error.strerror or error}): name a file in a folder that "
            "exists, is writable and has space"
        ) from error


def import_parquet(
    store: Store, path: str | Path, on_error: Literal["raise", "skip"] = "raise"
) -> AddedCounts:
    """Store what `export_parquet` wrote. Interrupted, it may be started again.

    Args:
        store: Where measurements go. What a machine has been measured on already stays as it is.
        path: File to read.
        on_error: "skip" leaves out records that make no sense, and logs a warning for each.

    Raises:
        StoreError: It cannot be read, or is no such file; or a record, named by its number from 1,
            makes no sense; or as `Store.add`.
    """
    check_unused(Path(path))
    added = AddedCounts(0, 0)
    for group in _groups(Path(path), is_skipped=on_error == "skip"):
        for fingerprint, members in groupby(group, key=lambda record: record[1]):
            now = store.add((measurement for measurement, _ in members), fingerprint)
            added = AddedCounts(added.new + now.new, added.known + now.known)
    return added


def _groups(path: Path, *, is_skipped: bool) -> Iterator[list[tuple[Measurement, Fingerprint]]]:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            if not schema.equals(SCHEMA) or schema.metadata != SCHEMA.metadata:
                raise StoreError(
                    f"{path} is no file of measurements of this version: write one by "
                    "`hetune profile CAMPAIGN --export FILE`"
                )
            first = 1
            for group in file.iter_batches(_GROUP):
                yield list(_sensible(path, group.to_pylist(), first, is_skipped=is_skipped))
                first += len(group)
    except StoreError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"cannot read {path} ({error}): name a whole file of measurements"
        ) from error


def _sensible(
    path: Path, records: list[dict[str, Any]], first: int, *, is_skipped: bool
) -> Iterator[tuple[Measurement, Fingerprint]]:
    """The records that can be stored, the first of which has a number."""
    for number, record in enumerate(records, first):
        try:
            measurement, fingerprint = _read(record)
            check_row(measurement, fingerprint.digest)
        except (KeyError, TypeError, ValueError, ProgramError, StoreError) as error:
            what = f"{path}: record {number} makes no sense ({error})"
            if not is_skipped:
                raise StoreError(
                    f"{what}: write the file anew, or leave such records out "
                    '(on_error="skip", `--on-error skip`)'
                ) from error
            _log.warning("%s and is left out", what)
        else:
            yield measurement, fingerprint


def _write(rows: Iterator[tuple[Measurement, Fingerprint]], file: BinaryIO) -> int:
    written = 0
    with pq.ParquetWriter(file, SCHEMA, compression="zstd", write_page_checksum=True) as writer:
        while group := list(islice(rows, _GROUP)):
            records = [_record(measurement, fingerprint) for measurement, fingerprint in group]
            writer.write_table(pa.Table.from_pylist(records, SCHEMA))
            written += len(group)
    return written


def _record(measurement: Measurement, fingerprint: Fingerprint) -> dict[str, Any]:
    made = ("fingerprint", "label", "program")
    record = {name: getattr(measurement, name) for name in SCHEMA.names if name not in made}
    launches = [
        {name: getattr(launch, name) for name in _LAUNCH_FIELDS} for launch in measurement.launches
    ]
    facts = json.dumps(fingerprint.as_dict())
    return {
        **record,
        "label": measurement.program.label,
        "program": measurement.program.text,
        "status": measurement.status.value,
        "launches": launches,
        "fingerprint": facts,
    }


def _read(record: dict[str, Any]) -> tuple[Measurement, Fingerprint]:
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
    fingerprint = Fingerprint.from_dict(json.loads(values.pop("fingerprint")))
    values["status"] = Status(values["status"])
    values["program"] = LabeledProgram.parse(values["program"], values.pop("label"))
    values["launches"] = tuple(
        LaunchRecord(
            launch["kernel"], launch["family"], tuple(launch["columns"]), tuple(launch["samples"])
        )
        for launch in record["launches"]
    )
    return Measurement(**values), fingerprint
