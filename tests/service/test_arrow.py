"""Graphs as Arrow IPC streams: what they mean, and what hostile ones may take."""

import io
import json
import struct
import tracemalloc
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hetune
from hetune.service.core.formats.arrow_stream import MEDIA_TYPE, check, opened
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs.arrow import graph_of_batches
from hetune.service.server.app import application
from hetune.variants.errors import GraphError, HetuneError, MalformedError, TooLargeError

from ._serving import LIMITS, asking, make_service, tiny_graph

GRAPH = tiny_graph()
ENDS = {"src": GRAPH.src.numpy(), "dst": GRAPH.dst.numpy()}
NAMES = [GRAPH.etype_names[number] for number in GRAPH.etype.tolist()]
NODES = {"nodes": {"author": 3, "paper": 4}}
ARROW = {"Content-Type": MEDIA_TYPE}


def table(document=NODES, **columns):
    """A table of these columns, or of the tiny graph's edges with the names of their types."""
    columns = columns or ENDS | {"etype": pa.array(NAMES).dictionary_encode()}
    metadata = None if document is None else {"document": json.dumps(document)}
    return pa.table(columns).replace_schema_metadata(metadata)


def stream(given, rows=4, **options):
    """A table as a stream of batches."""
    sink = io.BytesIO()
    chosen = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, given.schema, options=chosen) as writer:
        writer.write_table(given, max_chunksize=rows)
    return sink.getvalue()


@pytest.fixture
def read(tmp_path):
    """Reads a graph from a stream."""

    def graph_of(content, limits=LIMITS):
        path = tmp_path / "stream"
        path.write_bytes(content)
        with opened(path, limits) as batches:
            return graph_of_batches(batches.schema, batches, limits)

    return graph_of


# What they mean.


@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}, {"compression": "zstd"}], ids=str)
@pytest.mark.parametrize("rows", [1, 4, 100])
def test_a_stream_is_the_graph_of_its_edges(read, options, rows):
    assert read(stream(table(), rows, **options)).fingerprint == GRAPH.fingerprint


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64"])
def test_ids_of_any_width(read, dtype):
    columns = {name: ids.astype(dtype) for name, ids in ENDS.items()}
    columns["etype"] = GRAPH.etype.numpy().astype(dtype)
    header = NODES | {"etype_names": ["writes", "reads"]}
    assert read(stream(table(header, **columns))).fingerprint == GRAPH.fingerprint


@pytest.mark.parametrize(
    "columns",
    [
        "src:from,dst:to,etype:kind",
        "-,src,etype,dst",
        {"src": "from", "dst": "to", "etype": 2},
    ],
)
def test_columns_are_what_the_document_says(read, columns):
    kind = pa.array(NAMES).dictionary_encode()
    named = {"w": np.ones(len(NAMES)), "from": ENDS["src"], "kind": kind, "to": ENDS["dst"]}
    found = read(stream(table(NODES | {"columns": columns}, **named)))
    assert found.fingerprint == GRAPH.fingerprint


def test_a_stream_of_other_columns_is_told_what_to_say(read):
    named = {"from": ENDS["src"], "to": ENDS["dst"]}
    with pytest.raises(MalformedError, match=r'such as "columns": "src:from,dst:to"$'):
        read(stream(table(None, **named)))
    assert read(stream(table({"columns": "src:from,dst:to"}, **named))).num_edges == len(NAMES)
    for columns, message in (
        ("src:from,dst:x", "there is no column 'x' for dst"),
        ("src:from,dst:to,weight:from", "gives column 0 two roles"),
        ("src,dst,weight", "there are 2 columns, but columns= names 3"),
        ("src:from", "columns has no dst"),
        (["src", "dst"], "columns"),
    ):
        with pytest.raises(MalformedError, match=message):
            read(stream(table({"columns": columns}, **named)))
    weighted = named | {"w": ENDS["src"]}
    with pytest.raises(MalformedError, match="graphs are kept without a weight of edges"):
        read(stream(table({"columns": "src,dst,weight"}, **weighted)))


def test_a_stream_without_metadata(read):
    found = read(stream(table(None, **ENDS)))
    assert found.fingerprint == hetune.HeteroGraph(GRAPH.src, GRAPH.dst).fingerprint


def test_no_edges(read):
    none = pa.array([], pa.int32())
    found = read(stream(table({"num_nodes": 3}, src=none, dst=none)))
    assert (found.num_nodes, found.num_edges) == (3, 0)


def test_names_are_numbered_as_they_appear_or_as_is_said(read):
    turned = read(stream(table(NODES | {"etype_names": ["reads", "writes"]})))
    assert turned.etype_names == ("reads", "writes")
    assert turned.etype.tolist() == (1 - GRAPH.etype).tolist()
    more = read(stream(table(NODES | {"etype_names": ["writes", "reads", "cites"]})))
    assert (more.num_etypes, more.etype.tolist()) == (3, GRAPH.etype.tolist())


def test_each_batch_may_have_a_dictionary_of_its_own(read):
    names = pa.chunked_array([pa.array(NAMES[i : i + 3]).dictionary_encode() for i in (0, 3, 6)])
    assert names.chunk(0).dictionary != names.chunk(1).dictionary
    content = stream(table(NODES, **ENDS, etype=names))
    assert read(content).fingerprint == GRAPH.fingerprint
    large = pa.array(NAMES, pa.large_string()).dictionary_encode()
    assert read(stream(table(NODES, **ENDS, etype=large))).fingerprint == GRAPH.fingerprint


def test_canonical_types_need_names(read):
    triples = [("author", "writes", "paper"), ("paper", "reads", "paper")]
    with pytest.raises(MalformedError, match="give etype_names"):
        read(stream(table(NODES | {"canonical_etypes": triples})))


# What is refused.

TEXTS = pa.array(["0"] * 9)
NULLS = pa.array([None] + [0] * 8)
LISTS = pa.array([[0]] * 9)


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        (table(NODES, src=ENDS["src"]), MalformedError, "dst is missing"),
        (table(NODES, **ENDS, weight=ENDS["src"]), MalformedError, "no use for .* 'weight'"),
        (table(NODES, **ENDS | {"src": TEXTS}), MalformedError, "src is string: give integers"),
        (table(NODES, **ENDS | {"src": TEXTS.dictionary_encode()}), MalformedError, "src is dict"),
        (table(NODES, **ENDS | {"dst": ENDS["dst"] + 0.5}), MalformedError, "dst is double"),
        (table(NODES, **ENDS | {"dst": LISTS}), MalformedError, "dst is list"),
        (table(NODES, **ENDS, etype=TEXTS), MalformedError, "or a dictionary of texts"),
        (table(NODES, **ENDS, etype=LISTS), MalformedError, "etype is list"),
        (table(NODES, **ENDS, etype=NULLS), MalformedError, "etype has nulls"),
        (table(NODES, **ENDS | {"src": NULLS}), MalformedError, "src has nulls"),
        (
            table(NODES, **ENDS, etype=pa.DictionaryArray.from_arrays([0] * 9, [None, "a"])),
            MalformedError,
            "name is null",
        ),
        (table(NODES | {"etype_names": ["writes"]}), MalformedError, "none of etype_names"),
        (table(NODES | {"num_nodes": 7}), MalformedError, "beside nodes"),
        (table({"nodes": {"author": -1}}), MalformedError, "greater"),
        (table({"more": 1}), MalformedError, "more"),
        (table({"nodes": {"author": 3}}), GraphError, "num_nodes"),
        (table(NODES, **ENDS | {"src": ENDS["src"] - 1}), GraphError, "-1"),
        (
            table(None, **ENDS | {"src": np.full(9, 2**64 - 1, dtype=np.uint64)}),
            GraphError,
            "src has 18446744073709551615, which is too large",
        ),
        (table({"nodes": {"a": 900, "b": 101}}), TooLargeError, "nodes"),
        (table({"nodes": {str(n): 0 for n in range(101)}}), TooLargeError, "node types"),
        (table(None, src=range(5001), dst=range(5001)), TooLargeError, "edges"),
        (table(None, src=[0, 2**40], dst=[0, 1]), TooLargeError, "nodes"),
        (
            table(
                None,
                src=[0] * 101,
                dst=[0] * 101,
                etype=pa.array([str(n) for n in range(101)]).dictionary_encode(),
            ),
            TooLargeError,
            "edge types",
        ),
    ],
    ids=range(23),
)
def test_what_is_no_graph(read, given, kind, says):
    with pytest.raises(kind, match=says):
        read(stream(given, rows=10_000))


def test_a_column_twice(read):
    twice = pa.Table.from_arrays([pa.array([0])] * 3, names=["src", "dst", "src"])
    with pytest.raises(MalformedError, match="once each"):
        read(stream(twice))


def test_deltas_of_dictionaries(read):
    names = pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays([0], ["a"]),
            pa.DictionaryArray.from_arrays([1], ["a", "b"]),
        ]
    )
    given = table(None, src=[0, 1], dst=[1, 0], etype=names)
    assert read(stream(given)).etype_names == ("a", "b")
    with pytest.raises(MalformedError, match="write them whole"):
        read(stream(given, emit_dictionary_deltas=True))


def test_many_names_that_come_batch_by_batch_are_bounded(read):
    names = [
        pa.array([f"{batch}-{n}" for n in range(40)]).dictionary_encode() for batch in range(3)
    ]
    ids = [0] * 120
    with pytest.raises(TooLargeError, match="edge types"):
        read(stream(table(None, src=ids, dst=ids, etype=pa.chunked_array(names))))


WHOLE = stream(table())
PACKED = stream(table(), compression="zstd")


@pytest.mark.parametrize("content", [WHOLE, PACKED], ids=["plain", "compressed"])
def test_no_part_of_a_stream_is_one(read, content):
    for length in (*range(64), *range(64, len(content), 8), len(content) - 1):
        with pytest.raises(MalformedError):
            read(content[:length])
    for more in (b"\0", b"\xff\xff\xff\xff\0\0\0\0", content):
        with pytest.raises(MalformedError, match="follows its end"):
            read(content + more)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xff\xff\xff\0\0\0\0",
        b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(100),
        b"\xff\xff\xff\xff" + struct.pack("<i", -8) + bytes(100),
        b"ARROW1\0\0" + bytes(100),
        b'{"src": []}' + bytes(100),
    ],
    ids=range(5),
)
def test_what_is_no_stream(read, content):
    with pytest.raises(MalformedError, match="no Arrow IPC stream"):
        read(content)


def test_big_endian_numbers():
    """Nobody writes them here: the schema's mark is set where it is, by looking for it."""
    found = []
    for at in range(8, 400):
        content = bytearray(WHOLE)
        content[at] ^= 1
        with suppress(TooLargeError):
            try:
                check(memoryview(content), LIMITS)
            except MalformedError as error:
                found.append(str(error))
    assert any("big-endian" in said for said in found)


# What they may take.


def zeros(count):
    return table({"num_nodes": 1}, src=np.zeros(count, np.int64), dst=np.zeros(count, np.int64))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_is_compressed_counts_as_it_was_before(read, codec):
    limits = ServiceLimits(edges=10**9, body_bytes=1_000_000)
    content = stream(zeros(1_000_000), 10**9, compression=codec)
    assert len(content) < 100_000
    with pytest.raises(TooLargeError, match="16000000 bytes of decompressed buffers"):
        read(content, limits)
    assert read(stream(zeros(1000), compression=codec), LIMITS).num_edges == 1000
    in_parts = stream(zeros(100_000), 1000, compression=codec)
    with pytest.raises(TooLargeError, match="decompressed"):
        read(in_parts, limits)


@pytest.mark.parametrize("size", [2**20, 2**40, 2**62, 2**63 - 1, -2, -(2**63)])
def test_a_buffer_that_says_it_were_huge(read, size):
    content = stream(zeros(1000), 10**9, compression="zstd")
    said = struct.pack("<q", 8000)
    assert content.count(said) == 2
    for where in (content.index(said), content.rindex(said)):
        changed = content[:where] + struct.pack("<q", size) + content[where + 8 :]
        with pytest.raises(TooLargeError if size > 0 else MalformedError):
            read(changed)


def test_a_buffer_that_says_it_were_somewhat_larger(read):
    content = stream(zeros(1000), 10**9, compression="zstd")
    changed = content.replace(struct.pack("<q", 8000), struct.pack("<q", 8008))
    with pytest.raises(MalformedError):
        read(changed)


def test_more_messages_than_can_be_meant(read):
    """One schema, and the same batch over and over."""
    content = stream(zeros(1))
    head = stream(zeros(0), 1)[:-8]
    batch = content[len(head) : -8]
    many = head + batch * 70_000 + content[-8:]
    with pytest.raises(TooLargeError, match="messages"):
        check(memoryview(many), ServiceLimits())
    check(memoryview(head + batch * 1000 + content[-8:]), ServiceLimits())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("streams") / "stream"


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_bytes_break_it(place, data):
    content = bytearray(data.draw(st.sampled_from([WHOLE, PACKED])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 8))
        kind = data.draw(st.sampled_from(["bit", "byte", "word"]))
        if kind == "bit":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "byte":
            content[at] = data.draw(st.integers(0, 255))
        else:
            word = data.draw(st.sampled_from([-1, 0, 2**31, 2**40, 2**62, -(2**63)]))
            content[at : at + 8] = struct.pack("<q", word)
    place.write_bytes(content)
    try:
        with opened(place, LIMITS) as batches:
            found = graph_of_batches(batches.schema, batches, LIMITS)
    except HetuneError:
        return
    found.validate()
    assert found.num_edges <= LIMITS.edges


# Over HTTP.


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    service = make_service(tmp_path_factory.mktemp("data"))
    with asking(application(service)) as http:
        yield SimpleNamespace(http=http, service=service)


@pytest.mark.parametrize("content", [WHOLE, PACKED], ids=["plain", "compressed"])
def test_a_graph_is_uploaded(site, content):
    created = site.http.post("/v1/graphs", content=content, headers=ARROW)
    assert created.status_code == 201, created.text
    assert created.json() == {"id": GRAPH.fingerprint, "num_nodes": 7, "num_edges": 9}
    assert torch.equal(site.service.graphs.get(GRAPH.fingerprint).etype, GRAPH.etype)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (WHOLE[:-8], 400),
        (stream(table(NODES, src=ENDS["src"])), 400),
        (stream(table(NODES, **ENDS | {"src": ENDS["src"] - 1})), 422),
        (stream(zeros(5000), 10**9, compression="zstd")[:-1], 400),
        (stream(zeros(5001), 10**9, compression="zstd"), 413),
        (bytes(LIMITS.body_bytes + 1), 413),
        (stream(zeros(10**7), 10**9, compression="zstd"), 413),
    ],
    ids=range(8),
)
def test_bodies_that_are_refused_take_little(site, content, status):
    plain = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(plain)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        found = site.http.post("/v1/graphs", content=content, headers=ARROW)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(plain)
    assert found.status_code == status, found.text
    assert found.headers["content-type"] == "application/problem+json"
    assert peak < 10_000_000
    assert (pool.max_memory() or 0) < 10 * LIMITS.body_bytes
    assert not list(site.service.folder.root.rglob("staging/*"))


@pytest.mark.parametrize("path", ["/v1/models/m/infer", "/v1/models/m/select"])
def test_other_routes_take_none(site, path):
    assert site.http.post(path, content=WHOLE, headers=ARROW).status_code == 415
    at = f"/v1/graphs/{site.service.graphs.add(GRAPH)}"
    assert site.http.patch(at, content=WHOLE, headers=ARROW).status_code == 415
    assert site.http.put(f"{at}/features/x", content=WHOLE, headers=ARROW).status_code == 415
