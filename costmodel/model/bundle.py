"""Cost models on disk: a folder with a manifest and trees as arrays.

```
<bundle>/
    manifest.json           what it is; holds the SHA-256 of every other file, and its own
    <family>.npz            the regressor of a kernel family
    <family>-quantiles.npz  the quantiles of its error
```
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetune.costmodel.features import graph
from hetune.costmodel.features.devices import names_of
from hetune.costmodel.model.cost_model import CostModel
from hetune.costmodel.model.manifest import FittedFamily, ModelManifest
from hetune.costmodel.model.quantiles import ErrorQuantiles
from hetune.costmodel.model.regressor import LaunchRegressor, Target
from hetune.costmodel.model.train import FamilyModel
from hetune.variants.errors import ModelError
from hetune.variants.registry.atomic_files import sync_folder
from hetune.variants.runtime.launch_columns import column_names

_MANIFEST = "manifest.json"
_FAMILY = re.compile(r"[a-z0-9]+")


def save(model: CostModel, path: Path | str) -> ModelManifest:
    """Writes a model into a new folder, which is complete from the moment it exists.

    Returns:
        The manifest as it was written, with the digests of the files.

    Raises:
        ModelError: The folder exists, or cannot be written.
    """
    folder = Path(path)
    if folder.exists():
        raise ModelError(
            f"{folder} is there already, and models are not written over: delete it first, or save "
            "to another folder"
        )
    manifest, files = _contents(model)
    files[_MANIFEST] = manifest.as_json().encode()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            for name, data in files.items():
                _write(draft / name, data)
            sync_folder(draft)
            draft.chmod(0o755)
            draft.rename(folder)
            sync_folder(folder.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"cannot save the cost model to {folder} ({error.strerror or error}): free some space "
            "there, or save to another folder"
        ) from error
    return manifest


def digest(model: CostModel) -> str:
    """SHA-256 of the manifest that `save` would write, and so of everything."""
    return hashlib.sha256(_contents(model)[0].as_json().encode()).hexdigest()


def load(path: Path | str, sha256: str = "") -> CostModel:
    """Reads a model.

    Args:
        path: The folder.
        sha256: What that of its manifest begins with, where that is known.

    Raises:
        ModelError: There is none, it is damaged, or it asks for other features than this version
            of hetune computes.
    """
    folder = Path(path)
    try:
        manifest = read_manifest(folder, sha256)
        _check_features(manifest)
        families = {
            name: _family(folder, name, part, manifest) for name, part in manifest.families.items()
        }
    except ModelError as error:
        raise ModelError(f"the cost model {folder} cannot be used: {error}") from None
    except Exception as error:  # whatever is in its files
        raise ModelError(
            f"the cost model {folder} cannot be read ({type(error).__name__}: {error}): copy the "
            "bundle again, or train it again"
        ) from error
    return CostModel(families, manifest)


def read_manifest(folder: Path, sha256: str = "") -> ModelManifest:
    """What a bundle says of itself.

    Args:
        folder: The bundle.
        sha256: As of `load`.

    Raises:
        ModelError: There is no bundle, or its manifest is damaged or of another format.
    """
    data = _read(folder / _MANIFEST)
    if not hashlib.sha256(data).hexdigest().startswith(sha256):
        raise ModelError(
            f"the SHA-256 of {_MANIFEST} does not begin with {sha256}, so it is damaged: copy the "
            "bundle again, or train it again"
        )
    return ModelManifest.from_json(data.decode("utf-8", "replace"))


def _contents(model: CostModel) -> tuple[ModelManifest, dict[str, bytes]]:
    files = _files(model)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return dataclasses.replace(model.manifest, files=digests), files


def _files(model: CostModel) -> dict[str, bytes]:
    found = {}
    for name, family in model.families.items():
        if _FAMILY.fullmatch(name) is None:
            raise ModelError(f"the kernel family {name!r} is not of a-z and 0-9: rename it")
        found[_regressor(name)] = family.regressor.dump()
        if family.quantiles is not None:
            found[_quantiles(name)] = family.quantiles.dump()
    return found


def _family(folder: Path, name: str, part: FittedFamily, manifest: ModelManifest) -> FamilyModel:
    if _FAMILY.fullmatch(name) is None:
        raise ModelError(f"its manifest is damaged (a kernel family {name!r}): train it again")
    regressor = LaunchRegressor(
        **_known(LaunchRegressor, part.regressor), features=manifest.features
    ).load(_checked(folder, _regressor(name), manifest))
    if regressor.target != Target(manifest.target):
        raise ModelError(
            f"its manifest is damaged ({name} predicts {regressor.target!r}, and the model "
            f"{manifest.target!r}): train it again"
        )
    quantiles = None
    if part.quantiles is not None:
        quantiles = ErrorQuantiles(
            **_known(ErrorQuantiles, part.quantiles), features=manifest.features
        ).load(_checked(folder, _quantiles(name), manifest))
        quantiles.widening_ = float(part.widening)
    return FamilyModel(part.rows, regressor, quantiles)


def _known(kind: type[Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    known = kind(()).get_params().keys() - {"features"}
    if not parameters.keys() <= known:
        unknown = ", ".join(sorted(parameters.keys() - known))
        raise ModelError(f"its manifest names unknown parameters ({unknown}): train it again")
    return dict(parameters)


def _checked(folder: Path, name: str, manifest: ModelManifest) -> bytes:
    data = _read(folder / name)
    if hashlib.sha256(data).hexdigest() != manifest.files.get(name):
        raise ModelError(
            f"the SHA-256 of {name} is not the manifest's, so it is damaged: copy the bundle "
            "again, or train it again"
        )
    return data


def _check_features(manifest: ModelManifest) -> None:
    for what, theirs, ours in (
        ("a launch", manifest.features, names_of(manifest.device)),
        ("a graph", manifest.graph_features, graph.NAMES),
        ("a launch's numbers", manifest.columns, column_names(manifest.device)),
    ):
        if theirs != ours:
            missing = [name for name in theirs if name not in ours]
            new = [name for name in ours if name not in theirs]
            changes = [f"no longer there: {', '.join(missing)}"] if missing else []
            changes += [f"new: {', '.join(new)}"] if new else []
            raise ModelError(
                f"it was trained on other features of {what} than this version of hetune computes "
                f"({'; '.join(changes) or 'another order'}): train it again, or use the version "
                f"that trained it ({manifest.code_version})"
            )


def _regressor(family: str) -> str:
    return f"{family}.npz"


def _quantiles(family: str) -> str:
    return f"{family}-quantiles.npz"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(
            f"{path.name} is missing: copy the whole bundle, or train it again"
        ) from None
    except OSError as error:
        raise ModelError(
            f"{path.name} cannot be read ({error.strerror or error}): check the folder's "
            "permissions, or copy the bundle again"
        ) from None


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
