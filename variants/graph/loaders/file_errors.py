"""What all loaders share: errors that name the file, and checks before work is done."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from hetune.variants.errors import GraphError, GraphFileError, HetuneError, InputError

_MOST = 300
_CUT_SHORT = ("EOFError", "BadGzipFile", "BadZipFile", "error")  # the last is zlib's and struct's


@contextmanager
def reading(path: Path, what: str, kind: type[HetuneError] = GraphFileError) -> Iterator[None]:
    """Turn whatever a reader raises into an error that names the file.

    Parsers raise what they happen to run into when a file is damaged, so all of it counts.

    Args:
        path: The file.
        what: What it should be: "an N-Triples file".
        kind: Of the error.
    """
    try:
        yield
    except (GraphFileError, Warning):
        raise
    except (GraphError, InputError) as error:
        if isinstance(error, kind) and str(path) in str(error):
            raise
        raise kind(f"{path}: {printable(str(error))}") from error
    except FileNotFoundError as error:
        missing = error.filename or path
        raise kind(f"{missing} does not exist: check the path") from error
    except MemoryError as error:
        raise kind(
            f"{path} takes more memory than is free, or is damaged: check the file"
        ) from error
    except Exception as error:
        reason = reason_of(error)
        if type(error).__name__ in _CUT_SHORT:
            raise kind(
                f"{path} is cut short or no {re.sub('^an? ', '', what)}: {reason}; fetch it again"
            ) from error
        raise kind(f"{path} cannot be read as {what}: {reason}; mend it there") from error


def reason_of(error: Exception) -> str:
    """What a parser says, on one line; it may quote the file."""
    return printable(" ".join(str(error).split())[:_MOST]) or type(error).__name__


def printable(text: str) -> str:
    """Text without what a terminal would act on."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def check_file(path: Path) -> int:
    """The file's size in bytes.

    Raises:
        GraphFileError: It does not exist, is a folder, or is empty.
    """
    if not path.exists():
        raise GraphFileError(f"{path} does not exist: check the path")
    if not path.is_file():
        raise GraphFileError(f"{path} is a folder, not a file: name a file in it")
    size = path.stat().st_size
    if size == 0:
        raise GraphFileError(f"{path} is empty: fetch or write it again")
    return size


def check_memory(path: Path, wanted: int, why: str) -> None:
    """Refuse a file whose header asks for more memory than the machine has left."""
    available = psutil.virtual_memory().available
    if wanted > available:
        raise GraphFileError(
            f"{path}: reading {why} takes {wanted / 2**30:.1f} GiB, but only "
            f"{available / 2**30:.1f} GiB of memory are free: check the file"
        )
