"""Bytes of the protocol: whatever they are, they make a request, or an error that says so."""

import gzip
import json
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hetune.service.http.oip.compression import Decompressor, accepted, compress
from hetune.service.http.oip.framing import cut, split
from hetune.service.http.oip.names import name_of, output_type, parse_name
from hetune.service.http.oip.request import read_request
from hetune.service.http.oip.tensors import to_bytes
from hetune.variants.errors import HetuneError, MalformedError, TooLargeError

from ._serving import LIMITS

X = np.arange(6, dtype=np.float32).reshape(2, 3)
BINARY = {"name": "x", "shape": [2, 3], "datatype": "FP32", "parameters": {"binary_data_size": 24}}
IN_JSON = {"name": "x", "shape": [2, 3], "datatype": "FP32", "data": X.tolist()}


def message(*inputs, data=b"", **fields):
    text = json.dumps({"inputs": inputs, **fields}).encode()
    return bytearray(text + data), str(len(text))


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=50), st.lists(st.binary(max_size=20), max_size=5))
def test_what_is_joined_is_split_again(text, tensors):
    found, data = split(b"".join((text, *tensors)), str(len(text)))
    assert found == text
    assert [bytes(part) for part in cut(data, [len(t) for t in tensors])] == tensors


@pytest.mark.parametrize("header", ["", "0", "-1", "5", "1e0", "٣", "0x1", "1" * 5000, "1_0", " "])
def test_lengths_that_are_none(header):
    with pytest.raises(MalformedError, match="Inference-Header-Content-Length"):
        split(b"{}{}", header)


@settings(deadline=None)
@given(
    st.binary(max_size=200), st.one_of(st.none(), st.text(max_size=5), st.integers(0, 220).map(str))
)
def test_any_bytes_are_a_request_or_an_error(body, header):
    with pytest.raises(HetuneError):
        read_request(bytearray(body), header, LIMITS)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["FP32", "x", "x/a"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["binary_data_size", "timeout", "graph_id", "binary_data", "y"]), inner
        )
    ),
    max_leaves=8,
)
FIELDS = st.dictionaries(
    st.sampled_from(["name", "shape", "datatype", "parameters", "data"]), VALUES
)


@settings(deadline=None)
@given(
    st.lists(FIELDS.map(lambda change: BINARY | change), max_size=2),
    VALUES,
    st.lists(FIELDS, max_size=1),
    st.binary(max_size=48),
)
def test_any_json_is_a_request_or_an_error(inputs, parameters, outputs, data):
    body, header = message(*inputs, data=data, parameters=parameters, outputs=outputs)
    try:
        found = read_request(body, header, LIMITS)
    except HetuneError:
        return
    assert sum(t.nbytes for t in found.tensors.values()) <= max(len(body) * 8, 1)


@pytest.mark.parametrize("pad", range(4))
def test_binary_numbers_are_the_same_bits_wherever_they_begin(pad):
    body, header = message(BINARY, data=X.tobytes(), id="a" * pad)
    found = read_request(body, header, LIMITS).tensors["x", ()]
    assert found.numpy().tobytes() == X.tobytes()
    assert found.data_ptr() % 4 == 0


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=9))
def test_numbers_survive_json_and_bytes(numbers):
    tensor = torch.tensor(numbers, dtype=torch.float32)
    described = {"name": "x", "shape": [len(numbers)], "datatype": "FP32"}
    body, _ = message(described | {"data": tensor.tolist()})
    assert to_bytes(read_request(body, None, LIMITS).tensors["x", ()]) == to_bytes(tensor)
    data = bytes(to_bytes(tensor))
    sized = described | {"parameters": {"binary_data_size": len(data)}}
    body, header = message(sized, data=data)
    assert to_bytes(read_request(body, header, LIMITS).tensors["x", ()]) == data


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shape": [3, 2]}, "nested"),
        ({"shape": [2, 2**62]}, "nested"),
        ({"shape": [2, -3]}, "shape"),
        ({"shape": [2, 2**70]}, "shape"),
        ({"shape": [0, 2**62], "data": []}, "too large|numbers"),
        ({"shape": [7], "data": [0.0] * 6}, "make them equal"),
        ({"shape": [1] * 9, "data": [1]}, "shape"),
        ({"data": [[0, 1, 2], 3]}, "nested"),
        ({"data": [[0, 1, 2], [3, 4, "5"]]}, "data: Input should be a list of numbers"),
        ({"data": [[0, 1, 2], [3, 4, True]]}, "list of numbers"),
        ({"data": [[0, 1, 2], [3, 4, None]]}, "list of numbers"),
        ({"data": [[0, 1, 2], [3, 4, 1e39]]}, "does not fit"),
        ({"data": [[0, 1, 2], [3, 4, 10**400]]}, "does not fit"),
        ({"datatype": "INT64"}, "give integers"),
        ({"datatype": "INT16", "data": [0, 1, 2, 3, 4, 2**15]}, "does not fit"),
        ({"datatype": "INT64", "data": [0, 1, 2, 3, 4, 2**63]}, "does not fit"),
        ({"datatype": "BYTES"}, "features are FP32"),
        ({"datatype": "FP64"}, "features are FP32"),
        ({"data": None}, "either data"),
        ({"parameters": {"binary_data_size": 0}}, "either data"),
        ({"parameters": {"binary_data_size": -1}}, "binary_data_size"),
        ({"parameters": {"binary_data_size": "24"}}, "give a int"),
        ({"parameters": {"binary_data_size": 24}}, "make them equal"),
        ({"parameters": {"shared_memory_region": "r"}}, "not supported"),
        ({"name": "y"}, "no input 'y'"),
        ({"name": "x/"}, "no input"),
        ({"name": "x/%ff"}, "no input"),
        ({"name": "edge_index/a/b"}, "no input"),
    ],
    ids=range(28),
)
def test_inputs_that_are_none(change, reason):
    body, _ = message(IN_JSON | change)
    with pytest.raises(HetuneError, match=reason):
        read_request(body, None, LIMITS)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"inputs": [IN_JSON, IN_JSON]}, "twice"),
        ({"outputs": [{"name": "out"}, {"name": "out"}]}, "twice"),
        ({"outputs": [{"name": "out", "parameters": {"binary_data": 1}}]}, "give a bool"),
        ({"outputs": [{"name": "out", "parameters": {"classification": 3}}]}, "not supported"),
        ({"parameters": {"timeout": -1}}, "timeout"),
        ({"parameters": {"timeout": "1"}}, "give a int"),
        ({"parameters": {"graph_id": 1}}, "give a str"),
        ({"parameters": {"subset": "some"}}, "give auto, full, reach"),
        ({"id": 1}, "id"),
    ],
)
def test_requests_that_are_none(fields, reason):
    body = json.dumps({"inputs": [IN_JSON]} | fields).encode()
    with pytest.raises(MalformedError, match=reason):
        read_request(body, None, LIMITS)


def test_data_may_be_flat_and_parameters_unknown():
    given = IN_JSON | {"data": X.flatten().tolist(), "parameters": {"unknown": 1}, "extra": {}}
    body, _ = message(given, parameters={"mine": [1]}, model_name="m")
    assert torch.equal(read_request(body, None, LIMITS).tensors["x", ()], torch.from_numpy(X))


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=3, max_size=3))
def test_names_hold_any_types(types):
    assert parse_name(name_of("edge_index", *types)) == ("edge_index", tuple(types))
    assert output_type(name_of("out", types[0])) == types[0]


# Compression.


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@settings(deadline=None)
@given(content=st.binary(max_size=300), size=st.integers(1, 50))
def test_what_is_compressed_is_decompressed(coding, content, size):
    packed = compress(content, coding)
    stream = Decompressor(coding, len(content))
    for start in range(0, len(packed), size):
        stream.feed(packed[start : start + size])
    assert stream.finish() == content


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_bombs_are_stopped_at_the_limit(coding, pack):
    stream = Decompressor(coding, 5000)
    with pytest.raises(TooLargeError, match="more than the 5000"):
        stream.feed(pack(bytes(50_000_000)))
    assert len(stream.content) <= 5000


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize(
    "harm", [lambda p: p[:-1], lambda p: p + b"x", lambda p: b"", lambda p: b"x" + p]
)
def test_damaged_compression(coding, harm):
    def decompress(packed):
        stream = Decompressor(coding, 5000)
        stream.feed(packed)
        return stream.finish()

    packed = compress(b"abc" * 100, coding)
    assert decompress(packed)
    with pytest.raises(MalformedError):
        decompress(harm(packed))


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        ("gzip", "gzip"),
        ("Deflate;q=0.5", "deflate"),
        ("gzip, identity;q=0", "gzip"),
        ("gzip, deflate, br", None),
        ("gzip;q=0", None),
        ("gzip;q=0.0", None),
        ("br", None),
        ("*", None),
        ("", None),
    ],
)
def test_answers_are_compressed_where_one_coding_is_asked_for(header, coding):
    assert accepted(header) == coding
