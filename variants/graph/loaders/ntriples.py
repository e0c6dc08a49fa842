"""N-Triples, many lines at once."""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hetune.variants.errors import GraphFileError
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders.compressed import BOM, chunks
from hetune.variants.graph.loaders.file_errors import check_memory
from hetune.variants.graph.loaders.options import NTriplesOptions, SkippedLinesWarning
from hetune.variants.graph.loaders.rdf_triples import Triples

_IRI = r'<[^:<>"\s]+:[^<>"\s]*>'
_BLANK = r'_:[^\s<>"\\.](?:[^\s<>"\\]*[^\s<>"\\.])?'
_LITERAL = rf'"(?:[^"\\]|\\.)*"(?:@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*|\^\^{_IRI})?'
_END = r"[ \t]*\.[ \t]*(?:#.*)?$"
_LINE = (
    rf"^[ \t]*(?P<s>{_IRI}|{_BLANK})[ \t]*(?P<p>{_IRI})[ \t]*"
    rf"(?P<o>{_IRI}|{_BLANK}|{_LITERAL}){_END}"
)
_NOTHING = r"^[ \t]*(?:#.*)?$"
_STRING = r'"\^\^<http://www\.w3\.org/2001/XMLSchema#string>$'
"""RDF 1.1: the datatype of literals that state none."""
_UPPER_LANGUAGE = r'"@[a-z0-9-]*[A-Z][a-zA-Z0-9-]*$'
_LANGUAGE = re.compile(r'(?<="@)[a-zA-Z0-9-]+$')
_ESCAPE = re.compile(r'\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([tbnrf"\'\\]))')
_MEANT = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_BLOCK = 16 << 20
_SHOWN = 5
_SHOWN_CHARACTERS = 120


def load_ntriples(path: Path, options: NTriplesOptions) -> HeteroGraph:
    """Read N-Triples (`.nt`, also compressed) as a stream: every distinct term is a node.

    Literals are apart where their text, datatype or language differs, and so are those of the same
    value. Predicates are edge types in order of first appearance; a repeated triple counts once.
    Nodes are in order of first appearance within their type.

    Raises:
        GraphFileError: A line is no triple (named by its number), or the file is cut short.

    Warns:
        SkippedLinesWarning: Lines were left out, with `on_error="skip"`.
    """
    if options.on_error not in ("raise", "skip"):
        raise GraphFileError(f"on_error is {options.on_error!r}: one of raise, skip")
    bad = _BadLines(path, skip=options.on_error == "skip")
    columns: dict[str, list[pa.Array]] = {"s": [], "p": [], "o": []}
    line = 1
    for text in _blocks(path):
        lines = text.split(b"\n")
        found = _parsed(lines, line, bad)
        if not options.literals:
            found = found.filter(pc.invert(pc.starts_with(found.field("o"), '"')))
        for name, parts in columns.items():
            parts.append(pc.dictionary_encode(found.field(name)))
        line += len(lines) - 1
    bad.warn()
    return _triples(columns).graph(path, options)


class _BadLines:
    """What is done about lines that are no triples."""

    def __init__(self, path: Path, *, skip: bool) -> None:
        self._path = path
        self._skip = skip
        self._count = 0
        self._first: list[str] = []

    def meet(self, number: int, line: bytes) -> None:
        """Raises, or remembers, the line of that number."""
        shown = line.decode(errors="replace").strip()[:_SHOWN_CHARACTERS]
        if not self._skip:
            raise GraphFileError(
                f"{self._path}, line {number}: not a triple ({shown!r}); correct or remove the "
                'line, fetch the file again if it is cut short, or pass on_error="skip" to leave '
                "such lines out"
            )
        self._count += 1
        if len(self._first) < _SHOWN:
            self._first.append(f"line {number}: {shown!r}")

    def warn(self) -> None:
        """Says how many lines were left out, and shows the first."""
        if self._count:
            first = "; ".join(self._first)
            message = f"{self._path}: {self._count} lines are no triples and were left out: {first}"
            warnings.warn(message, SkippedLinesWarning, stacklevel=4)


def _blocks(path: Path) -> Iterator[bytes]:
    """Whole lines in blocks, each with a newline at its end but for the last one perhaps."""
    parts: list[bytes] = []
    size = 0
    is_first = True
    for chunk in chunks(path):
        if is_first:
            chunk, is_first = chunk.removeprefix(BOM), False
        parts.append(chunk)
        size += len(chunk)
        if size < _BLOCK:
            continue
        check_memory(path, 8 * size, "a block of lines")
        block = b"".join(parts)
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1
        parts, size = [block[end:]], len(block) - end
        if end:
            yield _with_newlines(block[:end])
    yield _with_newlines(b"".join(parts))


def _with_newlines(block: bytes) -> bytes:
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return block


def _parsed(lines: list[bytes], first: int, bad: _BadLines) -> pa.StructArray:
    """Subjects, predicates and objects of the lines that are triples."""
    texts, numbers = _decoded(lines, bad, first)
    found = pc.extract_regex(texts, _LINE)
    is_other = found.is_null()
    is_bad = pc.and_(is_other, pc.invert(pc.match_substring_regex(texts, _NOTHING)))
    for at in np.flatnonzero(is_bad.to_numpy(zero_copy_only=False)).tolist():
        number = at if numbers is None else numbers[at]
        bad.meet(first + number, lines[number])
    return found.filter(pc.invert(is_other)) if pc.any(is_other).as_py() else found


def _decoded(
    lines: list[bytes], bad: _BadLines, first: int
) -> tuple[pa.StringArray, list[int] | None]:
    """Lines as text, and which they are if some are left out because they are not UTF-8."""
    raw = pa.array(lines, pa.binary())
    try:
        return raw.cast(pa.string()), None
    except pa.ArrowInvalid:
        kept = []
        for at, line in enumerate(lines):
            try:
                line.decode()
            except UnicodeDecodeError:
                bad.meet(first + at, line)
            else:
                kept.append(at)
        return raw.take(pa.array(kept, pa.int64())).cast(pa.string()), kept


def _triples(columns: dict[str, list[pa.Array]]) -> Triples:
    """All triples, with terms numbered in order of first appearance, subject before object."""
    subjects, terms_of_subjects = _numbered(columns["s"])
    predicates, names = _numbered(columns["p"])
    objects, terms_of_objects = _numbered(columns["o"])
    terms = pc.dictionary_encode(pa.concat_arrays([terms_of_subjects, terms_of_objects]))
    number = terms.indices.to_numpy().astype(np.int64)
    ends = np.stack([number[subjects], number[len(terms_of_subjects) + objects]], axis=1)
    used, first = np.unique(ends, return_index=True)
    order = np.argsort(first)
    again = np.empty(len(terms.dictionary), np.int64)
    again[used[order]] = np.arange(len(used))
    ends = again[ends]
    rows = np.stack([ends[:, 0], predicates, ends[:, 1]], axis=1)
    texts = terms.dictionary.take(pa.array(used[order]))
    return Triples(rows, texts.to_pylist(), names.to_pylist())


def _numbered(parts: list[pa.Array]) -> tuple[np.ndarray, pa.StringArray]:
    """The number of each row's term, int64, and the distinct terms in order of appearance."""
    column = pa.chunked_array(parts).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # older versions of pyarrow
        column = column.chunk(0)
    terms = pc.dictionary_encode(_meant(column.dictionary))
    codes = terms.indices.to_numpy().astype(np.int64)[column.indices.to_numpy()]
    return codes, terms.dictionary


def _meant(terms: pa.StringArray) -> pa.StringArray:
    """Terms with their escapes resolved, and languages in lower case: equal terms are equal."""
    terms = pc.replace_substring_regex(terms, _STRING, '"')
    is_written = pc.or_(
        pc.match_substring(terms, "\\"), pc.match_substring_regex(terms, _UPPER_LANGUAGE)
    )
    if not pc.any(is_written).as_py():
        return terms
    resolved = [_resolved(term) for term in terms.filter(is_written).to_pylist()]
    return pc.replace_with_mask(terms, is_written, pa.array(resolved, pa.string()))


def _resolved(term: str) -> str:
    return _ESCAPE.sub(_character, _LANGUAGE.sub(lambda match: match[0].lower(), term))


def _character(match: re.Match[str]) -> str:
    short, long, letter = match.groups()
    if letter is not None:
        return _MEANT.get(letter, letter)
    code = int(short or long, 16)
    is_character = code < 0x110000 and not 0xD800 <= code < 0xE000
    return chr(code) if is_character else match[0]
