"""RDF: terms as they are written, bad lines, and what damaged files are answered with."""

import threading
from pathlib import Path

import pytest

from hetune.variants.errors import GraphFileError
from hetune.variants.graph import HeteroGraph, load
from hetune.variants.graph.loaders import SkippedLinesWarning

XSD = "http://www.w3.org/2001/XMLSchema#"
TURTLE = f"@prefix e: <http://e/> . @prefix xsd: <{XSD}> .\n"


def graph(path: Path, content: str | bytes, **options: object) -> HeteroGraph:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load(path, **options)


def literals(g: HeteroGraph) -> int:
    start = g.node_offsets[g.ntype_names.index("literal")]
    return g.node_offsets[g.ntype_names.index("literal") + 1] - start


# Pairs of terms, and whether they are the same one.
TERMS = [
    (f'"01"^^<{XSD}integer>', f'"1"^^<{XSD}integer>', False),
    (f'"1"^^<{XSD}integer>', f'"1"^^<{XSD}int>', False),
    (f'"1.0"^^<{XSD}double>', f'"1.00"^^<{XSD}double>', False),
    (f'"true"^^<{XSD}boolean>', f'"1"^^<{XSD}boolean>', False),
    (f'" a"^^<{XSD}token>', f'"a"^^<{XSD}token>', False),
    (f'"a"^^<{XSD}string>', '"a"', True),
    (rf'"a\"b"^^<{XSD}string>', r'"a\u0022b"', True),
    (rf'"a\"^^<{XSD}string>"', '"a"', False),
    ('"a"', '"a"@en', False),
    ('"a"@en', '"a"@de', False),
    ('"a"@en-GB', '"a"@en-gb', True),
    (r'"\u0041b"', '"Ab"', True),
    (r'"a\"@EN"', r'"a\"@en"', False),
    (r'"a\nb"', r'"a\u000Ab"', True),
    (f'"x"^^<{XSD}date>', f'"x"^^<{XSD}date>', True),
]


@pytest.mark.parametrize("name", ["g.nt", "g.ttl"])
@pytest.mark.parametrize(("one", "other", "are_same"), TERMS)
def test_literals_are_told_apart_by_how_they_are_written(
    tmp_path: Path, name: str, one: str, other: str, are_same: bool, capfd: pytest.CaptureFixture
):
    lines = f"<http://e/a> <http://e/p> {one} .\n<http://e/b> <http://e/p> {other} .\n"
    assert literals(graph(tmp_path / name, lines)) == (1 if are_same else 2)
    assert capfd.readouterr() == ("", "")


def test_numbers_of_turtle_are_kept_as_they_are_written(tmp_path: Path):
    same = '"01"^^xsd:integer, "1.50"^^xsd:decimal, "1e0"^^xsd:double, "true"^^xsd:boolean'
    lines = f"e:a e:p 1, 01, +1, 1.5, 1.50, 1e0, 1.0e0, true, false, {same} .\n"
    g = graph(tmp_path / "g.ttl", TURTLE + lines)
    assert literals(g) == 9
    assert g.num_edges == 9


def test_many_ill_typed_literals_print_nothing(tmp_path: Path, capfd: pytest.CaptureFixture):
    for name in ("g.nt", "g.ttl"):
        lines = (f'<http://e/{i}> <http://e/p> "no{i}"^^<{XSD}date> .\n' for i in range(50))
        assert literals(graph(tmp_path / name, "".join(lines))) == 50
    assert capfd.readouterr() == ("", "")


def test_reading_leaves_settings_of_rdflib_alone(tmp_path: Path):
    rdflib = pytest.importorskip("rdflib")
    lines = TURTLE + 'e:a e:p "01"^^xsd:integer, "1"^^xsd:integer .\n'
    found: list[int] = []

    def read(number: int) -> None:
        found.append(literals(graph(tmp_path / f"{number}.ttl", lines)))

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    assert str(rdflib.Literal("01", datatype=rdflib.XSD.integer)) == "1"
    for thread in threads:
        thread.join()
    assert found == [2] * 4


def test_ntriples_as_others_write_them(tmp_path: Path):
    content = (
        "\ufeff# a comment\r\n"
        "<http://e/a><http://e/p><http://e/b>.\r"
        "\t_:x.1\t<http://e/p> _:x.1. # the same\n"
        "\n"
        '<http://e/\\u00E4> <http://e/p> "dot . inside"@en-GB.\n'
        "<http://e/\u00e4> <http://e/q> <urn:x>   .   "
    )
    g = graph(tmp_path / "g.nt", content)
    assert (g.num_edges, g.etype_names) == (4, ("http://e/p", "http://e/q"))
    assert dict(
        zip(g.ntype_names, zip(g.node_offsets, g.node_offsets[1:], strict=False), strict=True)
    ) == {
        "iri": (0, 4),
        "blank": (4, 5),
        "literal": (5, 6),
    }


BAD = [
    b"<http://e/a> <http://e/p> .",
    b"<http://e/a> <http://e/p> <http://e/b>",
    b"<http://e/a> <http://e/p> <http://e/b> <http://e/g> .",
    b'"a" <http://e/p> <http://e/b> .',
    b"<http://e/a> _:p <http://e/b> .",
    b"<a> <http://e/p> <http://e/b> .",
    b'<http://e/a> <http://e/p> "open .',
    b'<http://e/a> <http://e/p> "a"@ .',
    b"<http://e/a> <http://e/p> \xff .",
    b"\x00",
]
GOOD = b"<http://e/a> <http://e/p> <http://e/b> .\n"


@pytest.mark.parametrize("bad", BAD)
def test_bad_lines_are_named_or_skipped(tmp_path: Path, bad: bytes):
    path = tmp_path / "g.nt"
    content = GOOD + b"# fine\n" + bad + b"\n" + GOOD.replace(b"/b", b"/c") + bad + b"\n"
    with pytest.raises(GraphFileError, match=r'g\.nt, line 3: not a triple .*on_error="skip"'):
        graph(path, content)
    with pytest.warns(SkippedLinesWarning, match=r"2 lines .* left out: line 3: .*; line 5: "):
        g = load(path, on_error="skip")
    assert (g.num_edges, g.num_nodes) == (2, 3)


def test_only_the_first_bad_lines_are_shown(tmp_path: Path):
    content = GOOD + b"".join(b"no triple %d\n" % i for i in range(1000))
    with pytest.warns(SkippedLinesWarning, match="1000 lines") as caught:
        graph(tmp_path / "g.nt", content, on_error="skip")
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "no triple 4" in message
    assert "no triple 5" not in message
    with pytest.raises(GraphFileError, match="on_error is 'x': one of raise, skip"):
        load(tmp_path / "g.nt", on_error="x")
    with pytest.raises(GraphFileError, match="no option 'on_error'"):
        graph(tmp_path / "g.ttl", TURTLE, on_error="skip")


def test_lines_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from hetune.variants.graph.loaders import compressed, ntriples

    lines = "".join(f'<http://e/{i}> <http://e/p> "{i % 7}" .\r\n' for i in range(200))
    whole = graph(tmp_path / "g.nt", lines)
    monkeypatch.setattr(ntriples, "_BLOCK", 64)
    for chunk in (1, 7, 64):
        monkeypatch.setattr(compressed, "_CHUNK", chunk)
        assert load(tmp_path / "g.nt").fingerprint == whole.fingerprint
        with pytest.raises(GraphFileError, match="line 202: not a triple"):
            graph(tmp_path / "b.nt", lines + "\r\n<x>\r\n")


# Turtle that ends too early, or is none, where rdflib raises whatever it comes to.
@pytest.mark.parametrize(
    "content",
    [
        TURTLE + "e:a e:p e:b .\ne:c e:p",
        TURTLE + "e:a e:p e:b .\ne:c",
        TURTLE + "e:a e:p ",
        TURTLE + 'e:a e:p "x',
        TURTLE + 'e:a e:p "x"',
        TURTLE + 'e:a e:p "x"^^',
        TURTLE + 'e:a e:p "x"@',
        TURTLE + "e:a e:p (",
        TURTLE + "e:a e:p [",
        TURTLE + "[" * 5000,
        TURTLE + "(" * 5000,
        TURTLE + "{ e:a e:p e:b }",
        TURTLE + 'e:a e:p "\\uD800" .',
        TURTLE + 'e:a e:p "\\U00110000" .',
        TURTLE + "e:a e:p ?x .",
        "@prefix",
        "@prefix e: <",
        "<",
        "\x00",
        "a",
    ],
)
def test_turtle_that_is_cut_short(tmp_path: Path, content: str):
    with pytest.raises(GraphFileError, match=r"g\.ttl"):
        graph(tmp_path / "g.ttl", content)
