"""Campaigns from TOML and JSON, read strictly."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from hetune.profiling.campaign.campaign import Campaign, Sample
from hetune.profiling.campaign.config_table import ConfigTable, is_count
from hetune.profiling.campaign.programs import gradients_of, programs_of
from hetune.profiling.corpus import recipe
from hetune.profiling.corpus.options import Scalar
from hetune.profiling.corpus.recipes import innermost
from hetune.profiling.corpus.sources import digest_of
from hetune.profiling.corpus.spanning import Spanning
from hetune.profiling.measure.limits import Limits
from hetune.profiling.units import GraphRecipe
from hetune.variants.errors import CampaignError
from hetune.variants.graph.threads import MOST_THREADS
from hetune.variants.kernel.device import DEVICES, Device, device_named

PRESETS = ("smoke", "default", "full", "gpu")
"""Campaigns that ship with hetune."""

_KEYS = (
    *("name", "graphs", "corpus", "layers", "kernels", "homogeneous", "gradients", "programs"),
    *("scores", "widths", "squared", "heads"),
    *("threads", "variants", "sample", "limits", "device"),
)
_ALL = "all"


def load(source: str | Path, *, threads: int | None = None, device: str | None = None) -> Campaign:
    """A campaign from a preset or a file.

    Args:
        source: One of `PRESETS`, or the path of a TOML or JSON file.
        threads: What "all" threads are; by default torch's number.
        device: What variants are for, in place of what the campaign says.

    Raises:
        CampaignError: There is no such preset, file or device, or something in it is wrong.
    """
    found = _load(source, threads)
    if device is None:
        return found
    return replace(found, device=_named(device))


def _named(name: str) -> Device:
    if (device := device_named(name)) is None:
        raise CampaignError(f"no device {name!r}: take one of {', '.join(DEVICES)}")
    return device


def _load(source: str | Path, threads: int | None) -> Campaign:
    if str(source) in PRESETS:
        preset = resources.files("hetune.profiling") / "presets" / f"{source}.toml"
        return parse(tomllib.loads(preset.read_text(encoding="utf-8")), str(source), threads)
    path = Path(source)
    is_json = path.suffix == ".json"
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text, object_pairs_hook=_once) if is_json else tomllib.loads(text)
    except OSError as error:
        raise CampaignError(
            f"{path} cannot be read ({error.strerror}): give the path of a TOML or JSON file, or "
            f"one of {', '.join(PRESETS)}"
        ) from error
    except (ValueError, RecursionError) as error:
        kind = "JSON" if is_json else "TOML"
        raise CampaignError(f"{path} is no {kind}: {error}") from error
    return parse(data, str(path), threads, folder=path.parent, name=path.stem)


def parse(
    data: object,
    where: str,
    threads: int | None = None,
    *,
    folder: Path | None = Path(),
    name: str | None = None,
) -> Campaign:
    """A campaign from what a file holds.

    Args:
        data: As `tomllib` or `json` give it.
        where: How messages call the file.
        threads: What "all" threads are; by default torch's number.
        folder: What relative paths of graphs and programs start from. None refuses files, before
            any is looked at: for campaigns that somebody else wrote.
        name: The campaign's name, unless it says its own; by default `where`.

    Raises:
        CampaignError: Something is unknown, missing, of the wrong kind, or refused.
    """
    table = ConfigTable(data, where)
    table.check(_KEYS)
    return Campaign(
        name=table.text("name", name or where),
        graphs=_graphs(table, folder),
        programs=programs_of(table, folder),
        threads=_threads(table, threads or torch.get_num_threads()),
        variants=table.text("variants", "*"),
        sample=table.fields("sample", Sample),
        limits=table.fields("limits", Limits) or Limits(),
        device=_device(table),
        gradients=gradients_of(table),
    )


def _graphs(table: ConfigTable, folder: Path | None) -> tuple[GraphRecipe, ...]:
    corpus = table.fields("corpus", Spanning)
    found = list(corpus.recipes()) if corpus else []
    for number, entry in enumerate(table.entries("graphs")):
        found.append(_graph(ConfigTable(entry, f"{table.where}, graphs[{number}]"), number, folder))
    if not found:
        raise CampaignError(f"{table.where}: it has no graphs: give [corpus] or [[graphs]]")
    names: set[str] = set()
    for graph in found:
        if graph.name in names:
            raise CampaignError(
                f"{table.where}: two graphs are called {graph.name!r}: give each a name of its own"
            )
        names.add(graph.name)
    return tuple(found)


def _graph(table: ConfigTable, number: int, folder: Path | None) -> GraphRecipe:
    kind = table.text("kind")
    options = {
        key: value for key, value in table.data.items() if key not in ("kind", "name", "family")
    }
    flat = _located(_flat(options, table.where), kind, folder, table.where)
    family = table.text("family") if "family" in table.data else None
    try:
        return recipe(table.text("name", f"{kind}-{number}"), kind, family, flat)
    except CampaignError as error:
        raise CampaignError(f"{table.where}: {error}") from error


def _flat(options: dict[str, Any], where: str) -> dict[str, Scalar]:
    """The graph that a subsample is of stands in a table of its own, `of`."""
    flat: dict[str, Scalar] = {}
    for key, value in options.items():
        if key == "of" and isinstance(value, dict):
            inner = ConfigTable(value, f"{where}, of")
            rest = {name: option for name, option in value.items() if name != "kind"}
            flat["of"] = inner.text("kind")
            flat |= {f"of.{name}": option for name, option in _flat(rest, inner.where).items()}
        elif isinstance(value, Scalar):
            flat[key] = value
        else:
            raise CampaignError(f"{where}: {key} is {value!r}: give a number, a text, or a boolean")
    return flat


def _located(
    options: dict[str, Scalar], kind: str, folder: Path | None, where: str
) -> dict[str, Scalar]:
    """Paths of files made absolute, with a digest of what they hold: other content, other units."""
    kind, prefix = innermost(kind, options)
    if kind != "file":
        return options
    if folder is None:
        raise CampaignError(
            f"{where}: graphs of files are not measured here: give another kind, or run "
            "`hetune profile` where the file is"
        )
    path = options.get(f"{prefix}path")
    if not isinstance(path, str):
        return options
    found = (folder / Path(path).expanduser()).absolute()
    return options | {f"{prefix}path": str(found), f"{prefix}digest": digest_of(found)}


def _threads(table: ConfigTable, everything: int) -> tuple[int, ...]:
    found = [everything if count == _ALL else count for count in table.entries("threads", [_ALL])]
    if not found or not all(is_count(count) and count <= MOST_THREADS for count in found):
        raise table.wrong("threads", f'give whole numbers from 1 to {MOST_THREADS}, or "{_ALL}"')
    return tuple(found)


def _device(table: ConfigTable) -> Device:
    try:
        return _named(table.text("device", "cpu"))
    except CampaignError as error:
        raise CampaignError(f"{table.where}: {error}") from error


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, each key of which stands there once, as TOML has it."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands there twice")
    return found
