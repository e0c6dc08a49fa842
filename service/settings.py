"""What `hetune serve` can be told: by options, the environment and a file, in this order."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import platformdirs
from pydantic import ByteSize, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from hetune.profiling.store.connect import MOST_SECONDS, SECONDS
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.models.engine import CudaGraph
from hetune.service.http.logs import LogStyle
from hetune.variants.errors import InputError
from hetune.variants.graph.threads import MOST_THREADS

PREFIX = "HETUNE_"
OPTIONS = {
    "host": "--host",
    "port": "--port",
    "service_data": "--data",
    "store": "--store",
    "worker": "--worker",
    "insecure": "--insecure",
    "regret_samples": "--regret-samples",
    "tracing": "--tracing",
    "log": "--log",
    "threads": "--threads",
    "device": "--device",
    "quota": "--quota",
    "max_body": "--max-body",
    "memory_limit": "--memory-limit",
}
"""Settings that `hetune serve` has an option for."""
LIMITS = {
    "quota": "stored_bytes",
    "max_body": "body_bytes",
    "max_json": "json_bytes",
    "max_json_numbers": "json_elements",
    "body_seconds": "body_seconds",
    "max_nodes": "nodes",
    "max_edges": "edges",
    "max_types": "types",
    "memory_limit": "run_bytes",
    "graph_memory": "loaded_bytes",
    "feature_memory": "feature_bytes",
    "device_memory": "device_bytes",
    "max_waiting": "waiting",
    "max_waiting_bytes": "waiting_bytes",
    "max_uploads": "uploads",
}
"""Settings that are limits, with the field of `ServiceLimits` that they are."""
_KEY = "api_key"
_UNSHOWN = (_KEY, "store")  # a URL may hold a password

Size = Annotated[ByteSize, Field(gt=0)]
Most = Annotated[int, Field(ge=1)]


def _own_folder() -> Path:
    return Path(platformdirs.user_data_dir("hetune")) / "service"


class Settings(BaseSettings):
    """All settings. Limits that are None are those of `ServiceLimits`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    host: str = Field("127.0.0.1", description="an address to listen on")
    port: int = Field(8000, ge=0, lt=1 << 16, description="a port to listen on; 0 for a free one")
    service_data: Path = Field(
        default_factory=_own_folder, description="a folder for graphs, models and keys"
    )
    large_graphs: Path | None = Field(
        None, description="a folder of graphs in parts, which runs may name"
    )
    ray: str | None = Field(None, description="address of a Ray cluster that computes runs")
    store: str | None = Field(
        None, repr=False, description="where jobs and records are: a file, or a database's URL"
    )
    store_seconds: float = Field(
        SECONDS,
        gt=0,
        le=MOST_SECONDS,
        description="the longest that the database may take to answer, such as 10",
    )
    worker: bool = Field(True, description="whether to measure for jobs, too: true or false")
    insecure: bool = Field(
        False, description="whether to let other machines in without a key: true or false"
    )
    api_key: SecretStr | None = Field(None, description="the root key; only in the environment")
    api_key_file: Path | None = Field(None, description="a file that holds the root key")
    regret_samples: float = Field(
        0.0, ge=0, le=1, description="a share of runs to measure regret on, such as 0.01"
    )
    tracing: bool | None = Field(None, description="whether to send traces: true or false")
    warm: tuple[str, ...] | None = Field(
        None, description='models to load before it is ready, such as ["m", "n@live"]'
    )
    log: LogStyle = Field(LogStyle.text, description="how the log is written: text or json")
    threads: int | None = Field(
        None, ge=1, le=MOST_THREADS, description="threads that kernels use, such as 4"
    )
    device: str = Field("cpu", description="where layers run: cpu, cuda, or a GPU as cuda:1")
    cuda_graph: CudaGraph = Field(
        "off", description="whether a GPU replays runs that repeat: off, auto or on"
    )
    grace_seconds: float = Field(
        30.0, ge=0, allow_inf_nan=False, description="time to finish in when it is told to stop"
    )
    quota: Size | None = Field(None, description="graphs and their features on disk, such as 50GB")
    max_body: Size | None = Field(None, description="a body in safetensors, such as 2GB")
    max_json: Size | None = Field(None, description="a body in JSON, such as 8MiB")
    max_json_numbers: Most | None = Field(None, description="numbers in an answer in JSON")
    body_seconds: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="time until a body has to be there, such as 60"
    )
    max_nodes: Most | None = Field(None, description="nodes of a graph")
    max_edges: Most | None = Field(None, description="edges of a graph")
    max_types: Most | None = Field(None, description="types of a graph's nodes, and of its edges")
    memory_limit: Size | None = Field(
        None, description="what a run's temporaries, scratch and result may take, such as 2GB"
    )
    graph_memory: Size | None = Field(
        None, description="graphs held in memory, by estimate, such as 4GiB"
    )
    feature_memory: Size | None = Field(
        None, description="features of graphs held in memory, such as 2GiB"
    )
    device_memory: Size | None = Field(None, description="what may be held on a GPU, such as 60GB")
    max_waiting: Most | None = Field(None, description="computations that wait or run")
    max_waiting_bytes: Size | None = Field(
        None, description="bodies that are received, or whose requests wait or run, such as 2GiB"
    )
    max_uploads: Most | None = Field(None, description="uploads at the same time")

    @classmethod
    def load(cls, file: Path | None = None, **options: Any) -> Self:
        """Settings from everywhere: an option goes before the environment, that before the file.

        Args:
            file: TOML; none if None. Paths in it are relative to its folder.
            options: By name; those that are None were not given.

        Raises:
            InputError: The file cannot be read or has an unknown setting, or a value is none.
        """
        written = {} if file is None else _read(file)
        environment = EnvSettingsSource(cls)()
        given = {name: value for name, value in options.items() if value is not None}
        try:
            return cls.model_validate({**written, **environment, **given})
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
        name = str(first["loc"][0])
        if name in given:
            where = OPTIONS[name]
        else:
            where = variable_of(name) if name in environment else f"{file}: {name}"
        shown = "" if name in _UNSHOWN else f" {first['input']!r}"
        wanted = cls.model_fields[name].description
        raise InputError(f"{where}{shown}: {first['msg']}; it is {wanted}")

    def limits(self) -> ServiceLimits:
        """The limits, those of `ServiceLimits` where nothing was set."""
        found = {field: getattr(self, name) for name, field in LIMITS.items()}
        return ServiceLimits(
            **{field: value for field, value in found.items() if value is not None}
        )

    def root_key(self) -> str | None:
        """The root key; None for none.

        Raises:
            InputError: There are two, or the file cannot be read or holds none.
        """
        if self.api_key_file is None:
            return None if self.api_key is None else self.api_key.get_secret_value()
        if self.api_key is not None:
            raise InputError(
                f"there are two root keys, {variable_of(_KEY)} and that of "
                f"{self.api_key_file}: give one"
            )
        try:
            key = self.api_key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the root key in {self.api_key_file}: {error}") from None
        if not key:
            raise InputError(f"{self.api_key_file} holds no key: write one into it")
        return key


def variable_of(setting: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{setting.upper()}"


def _read(file: Path) -> dict[str, Any]:
    """What a file sets."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot read the settings in {file}: {error}") from None
    known = [name for name in Settings.model_fields if name != _KEY]
    for name in content:
        if name == _KEY:
            raise InputError(
                f"{file}: {_KEY} is a secret: put it into a file of its own and name that as "
                f"{_KEY}_file, or set {variable_of(_KEY)}"
            )
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            advice = f"is {near[0]!r} meant?" if near else f"there are {', '.join(known)}"
            raise InputError(f"{file}: there is no setting {name!r}: {advice}")
    return content | _paths(content, file.parent)


def _paths(content: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Those of a file's settings that are paths, relative to its folder."""
    named = {
        name: content[name]
        for name in ("service_data", "large_graphs", "store", "api_key_file")
        if isinstance(content.get(name), str)
    }
    return {name: str(folder / path) for name, path in named.items() if "://" not in path}
