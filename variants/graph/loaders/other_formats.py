"""Text that is no list of edges, by how it begins."""

import re

_OTHERS = (
    (rb"version https://git-lfs", "a pointer of Git LFS: fetch the file itself with git lfs pull"),
    (rb"(?i)<(?:!doctype|html|\?xml|head)\b", "a web page or XML: fetch the file again"),
    (rb"[45]\d\d: [A-Za-z ]+\s*\Z", "the answer of a web server: fetch the file again"),
    (rb"\{\s*[\"}]|\[\s*[\[{]", "JSON: write a line for each edge"),
    (rb"%PDF-", "a PDF: give a file of edges"),
    (rb"PAR1", 'Parquet: pass format=".parquet"'),
    (rb"PK\x03\x04", 'a zip archive: pass format=".npz" if it is NumPy\'s'),
    (rb"%%MatrixMarket", 'Matrix Market: pass format=".mtx"'),
    (rb"(?i)@(?:prefix|base)\s|(?:prefix|base)\s+\S*\s*<", 'Turtle: pass format=".ttl"'),
    (rb"<[^<>\s]+>\s*<[^<>\s]+>\s*[<\"_][^\n]*\.\s*(?:\n|\Z)", 'N-Triples: pass format=".nt"'),
)
_LOOKED_AT = 4096


def other_format(data: bytes) -> str | None:
    """What text is instead of a list of edges, and what to do; None where nothing says so."""
    start = data[:_LOOKED_AT].lstrip()
    return next((what for pattern, what in _OTHERS if re.match(pattern, start)), None)
