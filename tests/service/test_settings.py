"""Settings: which source goes before which, what is refused, and that all are documented."""

import inspect
import os
import re
from dataclasses import fields
from pathlib import Path

import pytest

from hetune.clients.cli.serve import serve
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.settings import LIMITS, OPTIONS, Settings, variable_of
from hetune.variants.errors import InputError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "service-reference.md"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Without what the machine sets."""
    for name in [name for name in os.environ if name.upper().startswith("HETUNE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path):
    """Writes a file of settings."""

    def write(text):
        path = tmp_path / "hetune.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_an_option_before_the_environment_before_the_file_before_the_default(file, monkeypatch):
    path = file("port = 1\nhost = 'file'\nlog = 'json'\n")
    assert Settings.load(path).port == 1
    monkeypatch.setenv("HETUNE_PORT", "2")
    monkeypatch.setenv("HETUNE_HOST", "environment")
    assert Settings.load(path).port == 2
    found = Settings.load(path, port=3, host=None)
    assert (found.port, found.host, found.log, found.grace_seconds) == (
        3,
        "environment",
        "json",
        30.0,
    )


def test_without_anything_limits_are_the_defaults():
    assert Settings.load().limits() == ServiceLimits()


def test_limits(file, monkeypatch):
    path = file("max_json = '1MiB'\nmax_nodes = 7\nquota = 5000\n")
    monkeypatch.setenv("HETUNE_MAX_WAITING", "3")
    found = Settings.load(path, quota="2GB", memory_limit="1.5 kB").limits()
    assert (found.json_bytes, found.nodes, found.waiting) == (1 << 20, 7, 3)
    assert (found.stored_bytes, found.run_bytes) == (2_000_000_000, 1500)
    assert found.edges == ServiceLimits().edges


def test_paths_in_a_file_are_relative_to_it(file, tmp_path):
    path = file("service_data = 'data'\nstore = 'jobs.db'\napi_key_file = '/run/key'\n")
    found = Settings.load(path)
    assert found.service_data == tmp_path / "data"
    assert found.store == str(tmp_path / "jobs.db")
    assert found.api_key_file == Path("/run/key")
    assert Settings.load(file("store = 'postgresql://h/d'\n")).store == "postgresql://h/d"


@pytest.mark.parametrize("value", ["1", "true", "yes", "on"])
def test_switches_in_the_environment(monkeypatch, value):
    monkeypatch.setenv("HETUNE_INSECURE", value)
    monkeypatch.setenv("HETUNE_WORKER", "false")
    found = Settings.load()
    assert (found.insecure, found.worker) == (True, False)


def test_empty_variables_are_none(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.setenv(variable_of(name), "")
    assert Settings.load() == Settings.load()
    assert Settings.load().root_key() is None
    assert Settings.load().port == 8000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "there is no setting 'prot': is 'port' meant?"),
        ("max-body = 1", "there is no setting 'max-body': is 'max_body' meant?"),
        ("[limits]\nport = 1", "there is no setting 'limits'"),
        ("zzz = 1", "there is no setting 'zzz': there are host, port, "),
        ("api_key = 'sesame'", "put it into a file of its own and name that as api_key_file"),
        ("port = ", "cannot read the settings in "),
        ("port = 65536", r"hetune\.toml: port 65536: Input should be less than 65536; it is a"),
        ("quota = 'much'", r"hetune\.toml: quota 'much': could not .*, such as 50GB$"),
        ("quota = 0", "greater than 0"),
        ("threads = 1025", "less than or equal to 1024"),
        ("body_seconds = inf", "finite"),
        ("threads = 0", "such as 4"),
        ("worker = 'perhaps'", "true or false"),
        ("host = ['a', 'b']", "valid string"),
    ],
    ids=range(14),
)
def test_files_that_are_refused(file, text, message):
    with pytest.raises(InputError, match=message) as caught:
        Settings.load(file(text))
    assert "sesame" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"cannot read the settings in .*none\.toml"):
        Settings.load(tmp_path / "none.toml")


def test_a_value_is_refused_under_the_name_of_its_source(file, monkeypatch):
    path = file("port = 1")
    monkeypatch.setenv("HETUNE_PORT", "many")
    with pytest.raises(InputError, match=r"^HETUNE_PORT 'many': "):
        Settings.load(path)
    with pytest.raises(InputError, match=r"^--data 1: "):
        Settings.load(path, port=3, service_data=1)


# Secrets.


def test_the_root_key_comes_from_the_environment_or_from_a_file(file, monkeypatch, tmp_path):
    (tmp_path / "key").write_text("  open sesame\n")
    path = file("api_key_file = 'key'")
    assert Settings.load(path).root_key() == "open sesame"
    monkeypatch.setenv("HETUNE_API_KEY", "sesame")
    assert Settings.load().root_key() == "sesame"
    with pytest.raises(InputError, match="two root keys") as caught:
        Settings.load(path).root_key()
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff"], ids=range(4))
def test_key_files_that_hold_none(monkeypatch, tmp_path, content):
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("HETUNE_API_KEY_FILE", str(path))
    with pytest.raises(InputError, match=re.escape(str(path))):
        Settings.load().root_key()


def test_secrets_are_not_shown(monkeypatch):
    monkeypatch.setenv("HETUNE_API_KEY", "sesame")
    monkeypatch.setenv("HETUNE_STORE", "postgresql://me:secret@h/d")
    found = Settings.load()
    assert found.store == "postgresql://me:secret@h/d"
    assert not re.search("sesame|secret@", f"{found!r} {found}")
    assert "--api-key" not in OPTIONS.values()


# Completeness.


def test_every_limit_can_be_set():
    assert sorted(LIMITS.values()) == sorted(field.name for field in fields(ServiceLimits))
    assert set(LIMITS) <= set(Settings.model_fields)


def test_every_option_of_serve_is_a_setting():
    options = {f"--{name.replace('_', '-')}" for name in inspect.signature(serve).parameters}
    assert options == {"--config", *OPTIONS.values()}
    assert set(OPTIONS) <= set(Settings.model_fields)


def test_no_setting_s_variable_is_something_else_s():
    others = {"CACHE", "CXX", "JOBS", "MODELS", "DATA", "URL", "CONFIG", "FULL_CORPUS"}
    assert {name.upper() for name in Settings.model_fields} & others == set()


def test_every_setting_is_documented_with_its_variable_option_and_default():
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("## Settings") : text.index("## Limits")]
    assert "its name in capitals after `HETUNE_`" in section
    lines = re.findall(r"^\| `(\w+)` \| ?(.*?) ?\| (.*?) \| (.+) \|$", section, re.M)
    rows = {name: (option, default) for name, option, default, _ in lines}
    assert set(rows) == set(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        option = f"`{OPTIONS[name]}`" if name in OPTIONS else ""
        assert variable_of(name) == f"HETUNE_{name.upper()}"
        assert rows[name][0] == option
        if field.default_factory is None and field.default is not None:
            default = field.default
            shown = str(default).lower() if isinstance(default, bool) else f"{default}"
            assert rows[name][1] == f"`{shown.removesuffix('.0')}`", name


def test_the_documented_file_is_one(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    [content] = re.findall(r"^```toml\n(.*?)^```", text[text.index("## Settings") :], re.M | re.S)
    (tmp_path / "hetune.toml").write_text(content, encoding="utf-8")
    found = Settings.load(tmp_path / "hetune.toml")
    assert len(found.model_fields_set) == len(content.splitlines())
