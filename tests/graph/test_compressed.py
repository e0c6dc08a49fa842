"""Compressed files, byte order marks, and text that is no graph."""

import bz2
import gzip
import lzma
from collections import namedtuple
from pathlib import Path

import pyarrow as pa
import pytest

from hetune.variants.errors import GraphFileError
from hetune.variants.graph import formats, load
from hetune.variants.graph.loaders import compressed, file_errors

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}
CONTENTS = {
    ".txt": b"0 1\n1 2\n",
    ".tsv": b"a\tr\tb\nb\tr\tc\n",
    ".csv": b"src,dst\n0,1\n1,2\n",
    ".nt": b"<http://e/a> <http://e/p> <http://e/b> .\n<http://e/b> <http://e/p> <http://e/c> .\n",
    ".ttl": b"@prefix e: <http://e/> .\ne:a e:p e:b .\ne:b e:p e:c .\n",
    ".mtx": b"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n",
}


@pytest.mark.parametrize("ending", CONTENTS)
@pytest.mark.parametrize("compression", COMPRESS)
def test_every_text_may_be_compressed(tmp_path: Path, ending: str, compression: str):
    data = COMPRESS[compression](CONTENTS[ending])
    path = tmp_path / f"g{ending}{compression}"
    path.write_bytes(data)
    assert f"{ending}{compression}" in formats()
    assert load(path).num_edges == 2
    other = tmp_path / "renamed"
    other.write_bytes(data)
    assert load(other, format=ending).num_edges == 2
    for cut in (len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(GraphFileError, match=r"g\."):
            load(path)


def test_what_an_unknown_ending_is_advised(tmp_path: Path):
    path = tmp_path / "g.bz2"
    path.write_bytes(bz2.compress(CONTENTS[".txt"]))
    for format in (None, "bz2"):
        with pytest.raises(
            GraphFileError, match=r"pass format= with, .* one of .*\.txt.* found out"
        ):
            load(path, format=format)
    for format in (".txt", "txt", ".txt.bz2"):
        assert load(path, format=format).num_edges == 2


def test_what_is_decompressed_has_to_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    memory = namedtuple("memory", "available")(4 << 20)
    monkeypatch.setattr(file_errors.psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(compressed, "_CHUNK", 1 << 14)
    for compression, compress in COMPRESS.items():
        path = tmp_path / f"g.txt{compression}"
        path.write_bytes(compress(b"0 1\n" * (1 << 20)))
        with pytest.raises(GraphFileError, match=r"MiB|GiB .*memory"):
            load(path)


@pytest.mark.parametrize("ending", [*CONTENTS, "2id.txt"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, ending: str):
    content = b"2\n0 1 0\n1 2 0\n" if ending == "2id.txt" else CONTENTS[ending]
    path = tmp_path / f"g{ending}"
    path.write_bytes(b"\xef\xbb\xbf" + content)
    assert load(path).num_edges == 2
    if ending in (".txt", ".tsv"):
        path.write_bytes(b"\xef\xbb\xbf# comment line\n" + content)
        assert load(path).num_edges == 2
    path.write_bytes(content.decode().encode("utf-16"))
    with pytest.raises(GraphFileError, match=path.name):
        load(path)


def test_a_byte_order_mark_in_openke_s_dictionaries(tmp_path: Path):
    for name, content in (
        ("train2id.txt", "1\n0 1 0\n"),
        ("entity2id.txt", "2\na\t0\nb\t1\n"),
        ("relation2id.txt", "1\nr\t0\n"),
    ):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
    g = load(tmp_path / "train2id.txt")
    assert (g.num_nodes, g.etype_names) == (2, ("r",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS"),
        ("<!DOCTYPE html>\n<html lang>\n", "a web page"),
        ("<?xml version>\n", "XML"),
        ("404: Not Found\n", "the answer of a web server"),
        ('{"nodes": 3}\n', "JSON"),
        ('[{"src": 0}]\n', "JSON"),
        ("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n", r'format="\.mtx"'),
        (CONTENTS[".nt"].decode(), r'format="\.nt"'),
        (CONTENTS[".ttl"].decode(), r'format="\.ttl"'),
        ("PAR1\x00 x\n", r'format="\.parquet"'),
        ("a\x00b c\n", "no text"),
        ("".join(f"key{i} value{i}\n" for i in range(20)), "hardly a graph"),
    ],
)
@pytest.mark.parametrize("ending", [".txt", ".csv"])
def test_text_that_is_no_graph(tmp_path: Path, content: str, message: str, ending: str):
    path = tmp_path / f"g{ending}"
    path.write_text(content)
    if ending == ".csv":
        message = rf"{message}|no column 'src'|has \d columns?|looks like an edge"
    with pytest.raises(GraphFileError, match=message):
        load(path)
