"""Every loader under damaged files: only `GraphError`s come out, and time and memory are bounded.

HETUNE_FULL_MATRIX=1 makes 10,000 files in place of some 300.
"""

import bz2
import gzip
import io
import lzma
import random
import resource
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from hetune.variants.errors import GraphError
from hetune.variants.graph import load
from hetune.variants.graph.loaders import ColumnsWarning, SkippedLinesWarning

from ..full import FULL
from ._mutations import mutated

FILES = 10_000 if FULL else 300
SECONDS = 5
"""Of CPU time, for a file of a few hundred bytes."""
MEMORY = 512 << 20


def _npz() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        src=np.array([0, 1, 2]),
        dst=np.array([2, 2, 0], np.int32),
        etype=np.array([0, 1, 1]),
        ntype=np.array([0, 0, 1]),
        etype_names=np.array(["a", "b"]),
        split=np.array([0, 2, 0], np.int8),
        **{"edge_data/weight": np.array([0.5, 1.0, 2.0], np.float32)},
    )
    return buffer.getvalue()


def _parquet() -> bytes:
    buffer = io.BytesIO()
    etype = pa.array(["a", "b", "a"]).dictionary_encode()
    table = pa.table({"src": [0.0, 1.0, 2.0], "dst": [1, 2, 0], "etype": etype, "w": [1.5, 2, 3]})
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


XSD = "http://www.w3.org/2001/XMLSchema#"
VALID: dict[str, dict[str, bytes]] = {
    "edges.txt": {"edges.txt": b"# from to\n0 1\n1 2\n2 0\n10 3\n"},
    "triples.tsv": {"triples.tsv": b"ann\tknows\tbob\nbob\tlikes it\tcid\ncid\tknows\tann\n"},
    "ids.tsv": {"ids.tsv": b"0\t1\t2\n2\t0\t1\n1\t1\t0\n"},
    "header.tsv": {"header.tsv": b"src\tetype\tdst\tw\n0\t1\t2\t0.5\n2\t0\t1\t1.5\n"},
    "train2id.txt": {
        "train2id.txt": b"2\n0 3 1\n1 0 0\n",
        "entity2id.txt": b"4\na\t0\nb\t1\nc\t2\nd\t3\n",
        "relation2id.txt": b"2\nr\t0\ns\t1\n",
    },
    "": {
        "train.txt": b"a\tr\tb\nb\ts\tc\n",
        "valid.txt": b"c\tr\ta\n",
        "test.txt": b"c\tt\td\n",
    },
    "table.csv": {"table.csv": b'src,dst,etype\n0,1.0,"a ""b"""\n1,2,b\n2,0,a\n'},
    "data.nt": {
        "data.nt": b'<http://e/a> <http://e/p> "\\u0041"@en .\n'
        b"_:b <http://e/p> <http://e/a> . # c\n"
        b'<http://e/a> <http://e/q> "01"^^<http://e/int> .\n'
    },
    "data.ttl": {
        "data.ttl": b"@prefix e: <http://e/> .\ne:a e:p e:b ; a e:C , e:D .\n"
        b'[] e:p ( 1 01 1.5 1e3 true "x"@en """y""" ) .\n_:b e:q \'z\'^^e:t .\n'
    },
    "matrix.mtx": {
        "matrix.mtx": b"%%MatrixMarket matrix coordinate real symmetric\n% c\n"
        b"3 3 2\n2 1 0.5\n3 3 1\n"
    },
    "arrays.npz": {"arrays.npz": _npz()},
    "table.parquet": {"table.parquet": _parquet()},
    "ogb": {
        "ogb/raw/num-node-dict.csv.gz": b"author,paper\n2,4\n",
        "ogb/raw/relations/author___writes___paper/edge.csv.gz": b"1,0\n0,2\n",
        "ogb/raw/relations/author___writes___paper/num-edge-list.csv.gz": b"2\n",
        "ogb/raw/relations/paper___cites___paper/edge.csv.gz": b"2,0\n",
    },
    "wikikg": {
        "wikikg/edge.csv.gz": b"0,1\n3,0\n",
        "wikikg/num-node-list.csv.gz": b"6\n",
        "wikikg/edge_reltype.csv.gz": b"2\n0\n",
    },
}
"""What is loaded, relative to a folder ("" for the folder), and the files that it takes."""
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}
COLUMNS = (None, "src,dst", "src,etype,dst", "src,dst,weight", "src,-,dst,time", "src:a,dst:b", "")
CHOICES: dict[str, tuple[Any, ...]] = {
    "columns": COLUMNS,
    "header": (None, True, False),
    "delimiter": (None, " ", "\t", ",", ";"),
    "comment": (None, "#", "//"),
    "relabel": (None, True, False),
    "num_nodes": (None, 0, 9),
    "num_etypes": (None, 3),
    "bipartite": (None, ("a", "b")),
    "split": (None, "train", "test"),
    "node_types": ("kind", "class", "single"),
    "literals": (True, False),
    "on_error": ("raise", "skip"),
}
OPTIONS: dict[str, tuple[str, ...]] = {
    "txt": tuple(CHOICES)[:8],
    "tsv": tuple(CHOICES)[:8],
    "csv": tuple(CHOICES)[:8],
    "": tuple(CHOICES)[:9],
    "parquet": ("columns", "relabel", "num_nodes", "num_etypes", "bipartite"),
    "npz": ("split", "num_nodes", "num_etypes"),
    "nt": ("node_types", "literals", "on_error"),
    "ttl": ("node_types", "literals"),
}


class TooSlowError(BaseException):
    """A loader took more CPU time than it may."""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _write(folder: Path, target: str, rng: random.Random) -> tuple[Path, dict[str, Any]]:
    """A damaged copy of what `target` names, and options to load it with."""
    files = dict(VALID[target])
    victim = rng.choice(list(files))
    other = rng.choice(list(rng.choice(list(VALID.values())).values()))
    renamed = target
    for name, content in files.items():
        is_victim = name == victim
        data = mutated(content, other, rng) if is_victim and rng.random() < 0.9 else content
        path = folder / name
        if name.endswith(".gz"):
            data = gzip.compress(data)
        elif name == target and not name.endswith(("npz", "parquet")) and rng.random() < 0.2:
            ending, compress = rng.choice(list(COMPRESS.items()))
            data, renamed = compress(data), name + ending
            path = folder / renamed
        if is_victim and rng.random() < 0.1:
            data = mutated(data, other, rng)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    known = OPTIONS.get(target.rpartition(".")[2], ())
    options = {name: rng.choice(CHOICES[name]) for name in known if rng.random() < 0.15}
    return folder / renamed, options


def test_a_line_that_is_too_long_does_not_crash(tmp_path: Path):
    # SciPy's reader wrote beyond its arrays.
    path = tmp_path / "g.mtx"
    path.write_bytes(VALID["matrix.mtx"]["matrix.mtx"][:-12] + b"2 1 " + b"0 1 " * 300)
    assert _outcome(path, {}) == "refused"


@pytest.mark.parametrize("target", VALID)
def test_what_is_damaged_is_unharmed_here(tmp_path: Path, target: str):
    for name, content in VALID[target].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    options = {"header": True} if target == "header.tsv" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnsWarning)
        assert load(tmp_path / target, **options).num_edges > 0


def _outcome(path: Path, options: dict[str, Any]) -> str:
    """ "read", "refused", or what went wrong."""
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore", SkippedLinesWarning)
            warnings.simplefilter("ignore", ColumnsWarning)
            load(path, **options).validate()
    except GraphError as error:
        names_it = path.name in str(error) or path.parent.name in str(error)
        return "refused" if names_it and "\0" not in str(error) else f"unclear: {error}"
    except BaseException as error:  # whatever parsers raise is looked for
        return repr(error)
    return "read"


def test_damaged_files_raise_graph_errors_and_nothing_else(tmp_path: Path):
    targets = list(VALID)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    outcomes: Counter[str] = Counter()
    wrong = []
    for seed in range(FILES):
        path, options = _write(
            tmp_path / f"s{seed}", targets[seed % len(targets)], random.Random(seed)
        )
        outcome = _outcome(path, options)
        outcomes[outcome] += 1
        if outcome not in ("read", "refused"):
            wrong.append((seed, path, options, outcome))
    assert wrong == []
    assert min(outcomes["read"], outcomes["refused"]) > 0.02 * FILES
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    assert used < MEMORY, f"{used >> 20} MiB were taken"
