"""Options that several commands take, and the texts that they are read from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, get_origin, get_type_hints

import torch
import typer

from hetune.variants.errors import InputError
from hetune.variants.extras import installing
from hetune.variants.frontend.presets import LAYERS
from hetune.variants.graph.loaders import load
from hetune.variants.graph.threads import MOST_THREADS

_SIZE = re.compile(r"\s*([0-9]{0,18}\.?[0-9]{1,18})\s*([KMGT]i?B|B|)\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@contextmanager
def importing_the_service() -> Iterator[None]:
    """Says what to install where packages are missing that only the extra `service` brings.

    Raises:
        InputError: A module that is imported meanwhile is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"this command needs more packages: {installing('service')} ({error.name} is missing)"
        ) from error


LayerName = StrEnum("LayerName", list(LAYERS))  # type: ignore[misc]
"""The layers that the command line can make."""


class DeviceName(StrEnum):
    """What variants are made for."""

    cpu = "cpu"
    cuda = "cuda"


PlannedDevice = Annotated[
    DeviceName,
    typer.Option("--device", help="What variants are made for; a GPU need not be here."),
]
GraphName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A file or folder that hetune.load reads, or the name of a graph to generate: "
        "aifb, am, bgs, biokg, fb15k, mag, mutag, wikikg2.",
    ),
]
GraphNames = Annotated[
    list[str], typer.Argument(metavar="GRAPH...", help="Graphs, as `hetune run` takes them.")
]
Layer = Annotated[LayerName, typer.Option("--layer", help="Which layer.")]
Width = Annotated[int, typer.Option(help="Width of the rows in and out, of all heads together.")]
Heads = Annotated[int, typer.Option(help="Attention heads; RGCN has none.")]
Seed = Annotated[
    int,
    typer.Option(min=0, max=2**63 - 1, help="Draws weights, features and generated graphs."),
]
Processor = Annotated[
    str, typer.Option("--device", help="cpu, or a GPU that is here: cuda, cuda:1.")
]
Threads = Annotated[
    int | None, typer.Option(help="Threads that kernels use; torch's number by default.")
]
Rounds = Annotated[int, typer.Option(help="How often each variant is timed.")]
Top = Annotated[
    int, typer.Option(help="Time the best variant of so many plans (and vanilla), by prediction.")
]
Every = Annotated[bool, typer.Option("--all", help="Time every variant.")]
MemoryLimit = Annotated[
    str | None,
    typer.Option(help="Most memory for a run's temporaries, scratch and result: 500MB, 2GB."),
]
Stored = Annotated[
    str,
    typer.Option(
        "--precision", help="What rows that edges read may be stored in: float32, or bf16 as well."
    ),
]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters that are dataclasses have become the options in these.

    Fields that are `Annotated` are options; one that several dataclasses have goes to each.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: dict[str, inspect.Parameter] = {}
    taken: dict[str, tuple[type[Any], list[str]]] = {}
    for name, given in inspect.signature(command).parameters.items():
        kind = hints[name]
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters[name] = given.replace(annotation=kind, kind=given.KEYWORD_ONLY)
            continue
        own = get_type_hints(kind, include_extras=True)
        options = [each for each in fields(kind) if get_origin(own[each.name]) is Annotated]
        taken[name] = kind, [each.name for each in options]
        for each in options:
            default = given.empty if each.default is MISSING else each.default
            parameters[each.name] = inspect.Parameter(
                each.name, given.KEYWORD_ONLY, default=default, annotation=own[each.name]
            )

    def run(**values: Any) -> None:
        made = {name: kind(**{n: values[n] for n in own}) for name, (kind, own) in taken.items()}
        used = {n for _, own in taken.values() for n in own}
        command(**made, **{n: value for n, value in values.items() if n not in used})

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters.values()}
    run.__dict__["__signature__"] = inspect.Signature(list(parameters.values()))
    return run


_FLAGS = ("header", "relabel", "literals", "node_names")
_TEXTS = ("columns", "comment", "split", "node_types", "on_error", "vocabulary", "unknown")


def read_options(given: list[str] | None) -> dict[str, Any]:
    """Options of `hetune.load` by name, from texts such as "columns=src,dst".

    Raises:
        InputError: There is no such option, or it takes another kind of value.
        GraphFileError: The graph of `like` cannot be read.
    """
    options: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        match name if equals else "":
            case _ if name in _TEXTS and equals:
                options[name] = value
            case "delimiter":
                options[name] = value.replace(r"\t", "\t")
            case "bipartite":
                options[name] = value.split(",")
            case "like" if value:
                options[name] = load(value)
            case _ if name in _FLAGS and value.lower() in ("true", "false"):
                options[name] = value.lower() == "true"
            case "num_nodes" | "num_etypes" if value.isdecimal() and len(value) < 20:
                options[name] = int(value)
            case _:
                raise InputError(
                    f"--read {text!r}: give NAME=VALUE: delimiter, {', '.join(_TEXTS[:-1])} or "
                    f"{_TEXTS[-1]} and a text, {', '.join(_FLAGS[:-1])} or {_FLAGS[-1]} and true "
                    "or false, num_nodes or num_etypes and a number, bipartite and two names with "
                    "a comma, or like and a graph's file"
                )
    return options


def use_threads(threads: int | None) -> None:
    """Sets torch's number of threads.

    Raises:
        InputError: It is below 1 or above `MOST_THREADS`.
    """
    if threads is None:
        return
    if not 1 <= threads <= MOST_THREADS:
        raise InputError(f"--threads {threads}: take 1 to {MOST_THREADS}")
    torch.set_num_threads(threads)


def size_of(text: str | None, option: str) -> int | None:
    """Bytes from a text such as "2GB" (units of 1000) or "512MiB" (of 1024).

    Raises:
        InputError: It is none.
    """
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InputError(f"{option} {text!r} is no size: give a number with a unit, such as 500MB")
    unit = match[2].lower().removesuffix("b")
    return int(float(match[1]) * (1024 if "i" in unit else 1000) ** _POWERS[unit.removesuffix("i")])


def numbers_of(text: str, option: str) -> tuple[int, ...]:
    """Positive numbers from a text such as "32,64,128".

    Raises:
        InputError: Something else stands there.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 20 and int(part) > 0 for part in parts):
        raise InputError(f"{option} {text!r} is no list of positive numbers: give e.g. 32,64,128")
    return tuple(dict.fromkeys(int(part) for part in parts))


def layers_of(text: str) -> tuple[str, ...]:
    """Names of layers from a text, where commas stand between them.

    Raises:
        InputError: One is unknown.
    """
    parts = [part.strip().lower() for part in text.split(",")]
    for part in parts:
        if part not in LAYERS:
            raise InputError(f"--layers {text!r}: no layer {part!r}; take of {','.join(LAYERS)}")
    return tuple(dict.fromkeys(parts))
