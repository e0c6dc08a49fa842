"""Load, build, list: what a registry does while nothing is broken."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hetune.variants.errors import KernelError, RegistryError
from hetune.variants.registry import (
    KernelSource,
    Registry,
    default_registry,
    override_default_registry,
)


def test_creating_one_does_no_io(tmp_path, monkeypatch):
    monkeypatch.setenv("HETUNE_CXX", "/nowhere/g++")
    assert Registry(tmp_path / "kernels").entries() == []
    assert list(tmp_path.iterdir()) == []


def test_load_compiles_once_and_keeps_it(tmp_path, scripted, source):
    log = tmp_path / "log"
    chain = scripted(f'echo run >> {log}\nexec $CXX "$@"')
    first = Registry(tmp_path / "kernels", toolchain=chain)
    library = first.load(source(42))
    assert library.answer() == 42
    assert first.load(source(42)) is library
    assert first.holds(source(42))
    assert not first.holds(source(43))
    second = Registry(tmp_path / "kernels", toolchain=chain)
    assert second.holds(source(42))
    assert second.load(source(42)).answer() == 42
    assert log.read_text().splitlines() == ["run", "run"]  # once to compile, once to link


def test_key_covers_all_but_the_name(toolchain, source):
    base = source(1)
    registry = Registry(toolchain=toolchain)
    key = registry.key(base)
    assert len(key) == 64
    assert registry.key(replace(base, name="other")) == key
    others = [
        registry.key(replace(base, text=base.text + " ")),
        registry.key(replace(base, recipe="other")),
        registry.key(KernelSource(base.name, base.recipe, base.text)),
        *(
            Registry(toolchain=replace(toolchain, **change)).key(base)
            for change in (
                {"identity": "g++ 99"},
                {"flags": toolchain.flags[:-1]},
                {"link_flags": ("-shared", "-s")},
                {"cpu": "a Z80"},
                {"compiler": f"{toolchain.compiler} -m32"},
            )
        ),
    ]
    assert len({key, *others}) == len(others) + 1


def test_entry_and_manifest(registry, source):
    registry.load(source(7))
    (entry,) = registry.entries()
    assert (entry.name, entry.recipe) == ("answer-7", "answer 7")
    assert entry.bytes == (registry.root / f"{entry.key}.so").stat().st_size
    assert entry.key == registry.key(source(7))
    manifest = json.loads((registry.root / f"{entry.key}.json").read_text())
    assert manifest["cpu"] == registry.toolchain.cpu
    assert manifest["flags"].split()[0] == "-std=c++20"


def test_folder_is_private(registry, source):
    registry.load(source(1))
    assert registry.root.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_only_read_becomes_private(registry, source):
    registry.root.mkdir(mode=0o755)
    registry.load(source(1))
    assert registry.root.stat().st_mode & 0o777 == 0o700


def test_build_reports_and_shows_progress(registry, source):
    bad = KernelSource("bad", "int bad = ;", "")
    twice = [source(1), source(2), replace(source(1), name="again"), bad]
    calls = []
    report = registry.build(twice, jobs=2, progress=lambda *call: calls.append(call))
    assert (report.built, report.reused, set(report.failed)) == (2, 0, {"bad"})
    assert "kernel.cpp:1:" in report.failed["bad"]
    assert report.bytes == sum(entry.bytes for entry in registry.entries())
    assert [call[:2] for call in calls] == [(1, 3), (2, 3), (3, 3)]
    assert {call[2] for call in calls} == {"again", "answer-2", "bad"}
    again = registry.build(twice[:3])
    assert (again.built, again.reused, again.failed) == (0, 2, {})
    assert again.bytes == report.bytes


def test_build_names_two_failures_of_one_name(registry):
    report = registry.build([KernelSource("bad", f"int bad = ;// {i}", "") for i in range(2)])
    assert len(report.failed) == 2


def test_build_of_nothing(registry):
    assert registry.build([]).built == 0


@pytest.mark.parametrize(
    ("variable", "jobs", "message"),
    [
        ("many", None, "HETUNE_JOBS='many' is no count: set it to 1 or more, or unset it"),
        ("0", None, "0 jobs cannot compile anything: ask for 1 or more"),
        ("2", 0, "0 jobs cannot compile anything: ask for 1 or more"),
    ],
)
def test_count_of_jobs(monkeypatch, registry, source, variable, jobs, message):
    monkeypatch.setenv("HETUNE_JOBS", variable)
    with pytest.raises(RegistryError) as error:
        registry.build([source(1)], jobs=jobs)
    assert str(error.value) == message


@pytest.mark.parametrize("name", ["", "Gemm", "a b", "../etc", "a" * 121])
def test_names(name):
    with pytest.raises(KernelError, match="is not allowed"):
        KernelSource(name, "", "")


def test_default_registry(monkeypatch, tmp_path, registry):
    monkeypatch.setenv("HETUNE_CACHE", str(tmp_path / "cache"))
    before = default_registry()
    with override_default_registry(None):
        assert default_registry().root == tmp_path / "cache" / "kernels"
        assert default_registry() is default_registry()
    with override_default_registry(registry):
        assert default_registry() is registry
    assert default_registry() is before


def test_default_folder_without_the_variable(monkeypatch):
    monkeypatch.delenv("HETUNE_CACHE", raising=False)
    assert Registry().root.parts[-2:] == ("hetune", "kernels")
    assert Registry().root.is_absolute()
    assert isinstance(Registry().root, Path)
