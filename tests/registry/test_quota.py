"""The quota removes what was used longest ago, and never what is in use."""

import os

import pytest

from hetune.variants.registry import Registry, store


def _names(registry):
    return [entry.name for entry in registry.entries()]


def _age(registry, source, seconds):
    """Pretend that a kernel was last used so many seconds ago."""
    path = registry.root / f"{registry.key(source)}.so"
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def test_the_longest_unused_goes_first(registry, source):
    registry.build([source(i) for i in range(4)])
    for number, age in enumerate((30, 40, 10, 20)):
        _age(registry, source(number), age)
    assert _names(registry) == ["answer-2", "answer-3", "answer-0", "answer-1"]
    sizes = {entry.name: entry.bytes for entry in registry.entries()}
    report = registry.gc(sizes["answer-2"] + sizes["answer-3"] + 1)
    assert report.evicted == (registry.key(source(1)), registry.key(source(0)))
    assert report.freed_bytes == sizes["answer-0"] + sizes["answer-1"]
    assert report.bytes == sizes["answer-2"] + sizes["answer-3"]
    assert _names(registry) == ["answer-2", "answer-3"]


def test_loading_and_reusing_count_as_use(registry, source):
    registry.build([source(i) for i in range(3)])
    for number, age in enumerate((30, 20, 10)):
        _age(registry, source(number), age)
    Registry(registry.root, toolchain=registry.toolchain).load(source(0))
    registry.build([source(1)])
    assert _names(registry)[-1] == "answer-2"


def test_what_is_loaded_is_kept(registry, source):
    registry.load(source(0))
    registry.build([source(1)])
    _age(registry, source(0), 1000)
    assert registry.gc(0).evicted == (registry.key(source(1)),)
    assert _names(registry) == ["answer-0"]


def test_what_is_being_built_is_kept(registry, source):
    registry.build([source(0)])
    key = registry.key(source(0))
    with registry._folder.lock(key):
        other = Registry(registry.root, toolchain=registry.toolchain)
        assert other.gc(0).evicted == ()
    assert other.gc(0).evicted == (key,)


def test_build_and_load_stay_within_the_quota(tmp_path, toolchain, source):
    registry = Registry(tmp_path / "kernels", toolchain=toolchain)
    registry.build([source(0)])
    (entry,) = registry.entries()
    _age(registry, source(0), 1000)
    small = Registry(registry.root, toolchain=toolchain, quota_bytes=2 * entry.bytes + 100)
    small.build([source(1)])
    assert sorted(_names(small)) == ["answer-0", "answer-1"]
    _age(registry, source(1), 500)
    assert small.load(source(2)).answer() == 2
    assert _names(small) == ["answer-2", "answer-1"]
    assert small.load(source(0)).answer() == 0  # evicted, so it is compiled again
    assert _names(small) == ["answer-0", "answer-2"]


@pytest.fixture
def before_opening(monkeypatch):
    """Do something when a binary has been found or published, before it is opened the first time.

    What it returns is in the list.
    """

    def arrange(act):
        done, opened = [], store.open_library

        def open_late(path):
            if not done:
                done.append(act())
            return opened(path)

        monkeypatch.setattr(store, "open_library", open_late)
        return done

    return arrange


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_is_evicted_before_it_is_opened_is_compiled_again(
    is_stored, registry, source, before_opening, caplog
):
    if is_stored:
        registry.build([source(0)])
    other = Registry(registry.root, toolchain=registry.toolchain)
    evicted = before_opening(lambda: other.gc(0).evicted)
    assert registry.load(source(0)).answer() == 0
    assert evicted == [(registry.key(source(0)),)]
    assert _names(registry) == ["answer-0"]
    assert caplog.records == []


def test_what_is_being_loaded_goes_last(registry, source, before_opening):
    registry.build([source(0), source(1)])
    _age(registry, source(0), 1000)
    other = Registry(registry.root, toolchain=registry.toolchain)
    evicted = before_opening(lambda: other.gc(other.entries()[0].bytes + 1).evicted)
    assert registry.load(source(0)).answer() == 0
    assert evicted == [(registry.key(source(1)),)]


def test_gc_of_a_folder_that_is_not_there(registry):
    assert registry.gc().evicted == ()
    assert not registry.root.exists()
