"""Seeded mutations of small files: of bytes, of tokens, and of one file with parts of another."""

import random
import re

_NASTY = (
    *(b"", b" ", b"\t", b"\n", b"\r", b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\xff\xfe"),
    *(b"-1", b"0", b"00", b"+1", b"-0", b"1.0", b"0.5", b".", b"nan", b"inf", b"1e309", b"1e-400"),
    *(b"2147483648", b"9223372036854775808", b"18446744073709551616", b"9" * 60, b"-" + b"9" * 30),
    *(b'"', b"'", b'"""', b"\\", b"\\u", b"\\uD800", b"\\U00110000", b"\\x", b"@", b"@en", b"^^"),
    *(b"<", b">", b"<>", b"<a:b>", b"_:", b"_:a", b"#", b"%", b"%%", b",", b";", b":", b"{}", b"{"),
    *(b"(" * 3000, b"[" * 3000, b"a" * 5000, b"\t" * 300, b"\n" * 300, b"1 " * 300, b'"' * 301),
    *(b"@prefix", b"@base", b"PREFIX", b"a", b"true", b"src", b"dst", b"None", b"null", b"NA"),
)
_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")


def mutated(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """One to four mutations of `data`; some splice in a part of `other`."""
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(_MUTATIONS)(data, other, rng)
    return data


def _flip(data: bytes, _: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, _: bytes, rng: random.Random) -> bytes:
    at, length = _span(data, rng)
    values = rng.choice((b"\0", b"\xff", b"\x7f", rng.randbytes(1)))
    return data[:at] + values * length + data[at + length :]


def _cut(data: bytes, _: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _delete(data: bytes, _: bytes, rng: random.Random) -> bytes:
    at, length = _span(data, rng)
    return data[:at] + data[at + length :]


def _repeat(data: bytes, _: bytes, rng: random.Random) -> bytes:
    at, length = _span(data, rng)
    return data[:at] + data[at : at + length] * rng.choice((2, 3, 50)) + data[at + length :]


def _insert(data: bytes, _: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_NASTY) + data[at:]


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    at, length = _span(other, rng)
    where = rng.randrange(len(data) + 1)
    return data[:where] + other[at : at + length] + data[where:]


def _replace_token(data: bytes, _: bytes, rng: random.Random) -> bytes:
    tokens = _TOKEN.findall(data)
    if tokens:
        tokens[rng.randrange(len(tokens))] = rng.choice(_NASTY)
    return b"".join(tokens)


def _swap_tokens(data: bytes, _: bytes, rng: random.Random) -> bytes:
    tokens = _TOKEN.findall(data)
    if tokens:
        a, b = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        tokens[a], tokens[b] = tokens[b], tokens[a]
    return b"".join(tokens)


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    at = rng.randrange(len(data) + 1)
    return at, min(len(data) - at, rng.choice((1, 2, 4, 8, 40)))


_MUTATIONS = (
    _flip,
    _overwrite,
    _cut,
    _delete,
    _repeat,
    _insert,
    _splice,
    _replace_token,
    _swap_tokens,
)
