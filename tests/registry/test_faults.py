"""Damaged entries are rebuilt, untrusted folders refused, unusable ones done without."""

import errno
import hashlib
import json
import os
import resource
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from hetune.variants.errors import RegistryError
from hetune.variants.registry import Registry, folder, store
from hetune.variants.registry.sealed_json import unsealed


def _damage_flip(binary: Path, manifest: Path) -> None:
    data = bytearray(binary.read_bytes())
    data[len(data) // 2] ^= 1
    binary.write_bytes(data)


def _damage_truncate(binary: Path, manifest: Path) -> None:
    os.truncate(binary, 5000)


def _damage_empty(binary: Path, manifest: Path) -> None:
    os.truncate(binary, 0)


def _damage_binary_missing(binary: Path, manifest: Path) -> None:
    binary.unlink()


def _damage_manifest_cut(binary: Path, manifest: Path) -> None:
    os.truncate(manifest, 40)


def _damage_manifest_bytes(binary: Path, manifest: Path) -> None:
    manifest.write_bytes(b"\xff\xfe")


def _damage_manifest_field(binary: Path, manifest: Path) -> None:
    fields = unsealed(json.loads(manifest.read_text()))
    manifest.write_text(json.dumps({**fields, "bytes": "many"}))


def _damage_manifest_fields(binary: Path, manifest: Path) -> None:
    manifest.write_text('{"format": 1}')


def _damage_manifest_format(binary: Path, manifest: Path) -> None:
    fields = unsealed(json.loads(manifest.read_text()))
    manifest.write_text(json.dumps({**fields, "format": 0}))


def _damage_manifest_other(binary: Path, manifest: Path) -> None:
    fields = unsealed(json.loads(manifest.read_text()))
    manifest.write_text(json.dumps({**fields, "key": "0" * 64}))


def _damage_unloadable(binary: Path, manifest: Path) -> None:
    """A file with the right digest which the dynamic linker refuses."""
    binary.write_bytes(b"ELF no more")
    fields = unsealed(json.loads(manifest.read_text()))
    digest = hashlib.sha256(b"ELF no more").hexdigest()
    manifest.write_text(json.dumps({**fields, "bytes": 11, "sha256": digest}))


DAMAGES = {
    _damage_flip: "its SHA-256 is not the manifest's",
    _damage_truncate: "it has 5000 bytes instead of",
    _damage_empty: "it has 0 bytes instead of",
    _damage_binary_missing: "its binary is missing",
    _damage_manifest_cut: "its manifest cannot be read",
    _damage_manifest_bytes: "its manifest cannot be read",
    _damage_manifest_field: "its manifest cannot be read (a field has the wrong type)",
    _damage_manifest_fields: "its manifest cannot be read (fields are missing or unknown)",
    _damage_manifest_other: "its manifest is that of another kernel",
    _damage_unloadable: "it cannot be loaded: ",
}


@pytest.fixture
def stored(registry, source):
    """A folder with one entry that no process has loaded: its registry, binary and manifest."""
    registry.build([source(5)])
    key = registry.key(source(5))
    return registry, registry.root / f"{key}.so", registry.root / f"{key}.json"


@pytest.mark.parametrize(
    ("damage", "reason"), DAMAGES.items(), ids=lambda value: getattr(value, "__name__", None)
)
def test_a_damaged_entry_is_quarantined_and_rebuilt(stored, source, caplog, damage, reason):
    registry, binary, manifest = stored
    damage(binary, manifest)
    assert registry.load(source(5)).answer() == 5
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith(f"the compiled kernel {binary} is damaged ({reason}")
    assert message.endswith(
        f": moved to {registry.root / 'quarantine'}, and it will be compiled again"
    )
    assert list((registry.root / "quarantine").iterdir())
    assert Registry(registry.root, toolchain=registry.toolchain).verify().bad == {}


def test_what_was_built_anew_meanwhile_is_not_quarantined(stored, source, caplog, monkeypatch):
    registry, binary, manifest = stored
    _damage_unloadable(binary, manifest)
    other = Registry(registry.root, toolchain=registry.toolchain)
    opened = store.open_library

    def open_once(path):
        monkeypatch.setattr(store, "open_library", opened)
        try:
            return opened(path)
        finally:
            other.gc(0)
            other.build([source(5)])

    monkeypatch.setattr(store, "open_library", open_once)
    assert registry.load(source(5)).answer() == 5
    assert caplog.records == []
    assert list((registry.root / "quarantine").iterdir()) == []


def test_verify_finds_damage_and_names_it(stored, source):
    registry, binary, manifest = stored
    registry.build([source(6)])
    assert (registry.verify().checked, registry.verify().bad) == (2, {})
    _damage_flip(binary, manifest)
    report = registry.verify()
    assert report.checked == 2
    assert dict(report.bad) == {binary.stem: "its SHA-256 is not the manifest's"}
    assert [entry.name for entry in registry.entries()] == ["answer-6"]
    assert registry.verify().checked == 1


def test_build_repairs_damage(stored, source):
    registry, binary, manifest = stored
    _damage_truncate(binary, manifest)
    assert registry.build([source(5)]).built == 1
    assert registry.verify().bad == {}


def test_a_binary_without_manifest_does_not_exist(stored, source, caplog):
    registry, binary, manifest = stored
    manifest.unlink()
    assert registry.entries() == []
    assert registry.verify().checked == 0
    assert registry.gc().swept == 1
    assert not binary.exists()
    registry.build([source(5)])
    binary.write_bytes(b"an attacker's")
    manifest.unlink()
    assert registry.load(source(5)).answer() == 5
    assert caplog.records == []  # it is rebuilt quietly


UNUSABLE = (_damage_manifest_format, _damage_manifest_cut, _damage_binary_missing)


@pytest.mark.parametrize("damage", UNUSABLE)
def test_gc_removes_what_nobody_can_load(stored, source, damage):
    registry, binary, manifest = stored
    registry.build([source(6)])
    damage(binary, manifest)
    with registry._folder.lock(binary.stem):
        assert registry.gc().swept == 0
    report = registry.gc()
    assert (report.swept, report.evicted) == (1, ())
    assert registry._folder.list_keys() == [registry.key(source(6))]


@pytest.mark.parametrize("damage", UNUSABLE)
def test_the_quota_counts_what_nobody_can_load(stored, source, damage):
    registry, binary, manifest = stored
    (entry,) = registry.entries()
    damage(binary, manifest)
    quota = entry.bytes * 3 // 2 if binary.exists() else entry.bytes // 2
    small = Registry(registry.root, toolchain=registry.toolchain, quota_bytes=quota)
    assert small.load(source(6)).answer() == 6
    assert not binary.exists()
    assert not manifest.exists()
    assert [entry.name for entry in small.entries()] == ["answer-6"]


def test_the_quarantine_is_bounded(stored, source):
    registry, binary, manifest = stored
    for _ in range(18):
        _damage_truncate(binary, manifest)
        assert registry.build([source(5)]).built == 1
    assert len(list((registry.root / "quarantine").iterdir())) == 32  # binaries and manifests


def test_leftovers_of_killed_builds_are_swept(stored, source):
    registry, binary, _ = stored
    leftover = registry.root / "staging" / f"{binary.stem}.abc"
    (leftover / "cxx-1").mkdir(parents=True)
    (leftover / "cxx-1" / "kernel.o").write_bytes(b"half")
    report = registry.gc()
    assert (report.swept, report.evicted) == (1, ())
    assert not leftover.exists()


def test_a_folder_of_someone_else_is_refused(stored, source, monkeypatch):
    registry, _, _ = stored
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    for act in (lambda: registry.load(source(5)), lambda: registry.build([]), registry.entries):
        with pytest.raises(RegistryError) as error:
            act()
        assert str(error.value) == (
            f"the kernel registry {registry.root} belongs to user {me}, not to you (user "
            f"{me + 1}), so its binaries are not trusted: set HETUNE_CACHE to a folder of your own"
        )


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_can_write_is_refused(stored, source, mode):
    registry, _, _ = stored
    registry.root.chmod(mode)
    for act in (lambda: registry.load(source(5)), registry.verify, registry.gc):
        with pytest.raises(RegistryError) as error:
            act()
        assert str(error.value) == (
            f"the kernel registry {registry.root} can be written by others (mode {mode:04o}), so "
            f"its binaries are not trusted: empty it and run `chmod 700 {registry.root}`, or set "
            "HETUNE_CACHE to another folder"
        )


def _expect_degraded(registry, source, caplog, message: str) -> None:
    """Kernels load all the same, with one warning; building ahead of time is an error."""
    with pytest.raises(RegistryError) as error:
        registry.build([source(100)])
    assert str(error.value) == message
    assert not registry.holds(source(101))
    assert registry.load(source(101)).answer() == 101
    assert registry.holds(source(101))
    assert registry.load(source(102)).answer() == 102
    (record,) = caplog.records
    assert record.getMessage() == f"{message}. Until then each process compiles its kernels anew"


def test_a_folder_that_cannot_be_created(tmp_path, toolchain, source, caplog):
    (tmp_path / "file").write_text("")
    registry = Registry(tmp_path / "file" / "kernels", toolchain=toolchain)
    _expect_degraded(
        registry,
        source,
        caplog,
        f"cannot create the kernel registry {registry.root} (Not a directory): set HETUNE_CACHE "
        "to another folder",
    )
    assert registry.entries() == []


def test_a_read_only_folder(toolchain, source, caplog):
    """What is there still loads from it; the superuser becomes another user to feel the limit."""
    top = Path(tempfile.mkdtemp())
    user = 65_534 if os.geteuid() == 0 else os.geteuid()
    registry = Registry(top / "kernels", toolchain=toolchain)
    try:
        registry.build([source(1)])
        for path in (top, *top.rglob("*")):
            os.chown(path, user, -1)
            if path.is_dir():
                path.chmod(0o500)
        if user != os.geteuid():
            os.seteuid(user)
        assert registry.load(source(1)).answer() == 1
        assert registry.build([source(1)]).reused == 1
        assert caplog.records == []
        _expect_degraded(
            registry,
            source,
            caplog,
            f"cannot lock the kernel registry {registry.root} (Permission denied): make it "
            "writable, or set HETUNE_CACHE to another folder",
        )
    finally:
        os.seteuid(os.getuid())
        for path in (top, *top.rglob("*")):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(top)


def test_a_folder_that_cannot_be_reached(toolchain, source, caplog):
    """The superuser becomes another user to feel the limit."""
    top = Path(tempfile.mkdtemp())
    registry = Registry(top / "kernels", toolchain=toolchain)
    top.chmod(0o000)
    try:
        if os.geteuid() == 0:
            os.seteuid(65_534)
        assert not registry.holds(source(1))
        assert registry.load(source(1)).answer() == 1
        assert registry.holds(source(1))
        (record,) = caplog.records
        assert record.getMessage() == (
            f"cannot read the kernel registry {registry.root} (Permission denied): make it "
            "writable, or set HETUNE_CACHE to another folder. Until then each process compiles its "
            "kernels anew"
        )
    finally:
        os.seteuid(os.getuid())
        top.chmod(0o700)
        shutil.rmtree(top)


def test_a_full_disk_while_publishing(registry, source, caplog, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(folder.os, "fsync", full)
        _expect_degraded(
            registry,
            source,
            caplog,
            f"cannot write the kernel registry {registry.root} (No space left on device): free "
            "some space (`hetune registry gc`), or set HETUNE_CACHE to another folder",
        )
    assert list((registry.root / "staging").iterdir()) == []
    fresh = Registry(registry.root, toolchain=registry.toolchain)
    assert fresh.verify().checked == 0
    assert fresh.load(source(100)).answer() == 100
    assert len(fresh.entries()) == 1


@contextmanager
def _files_no_larger_than(limit):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (16, "cannot write the kernel registry {root} (File too large): free some space "),
        (4096, "the disk of the kernel registry {root} is full: free some space "),
    ],
    ids=["writing the source", "writing the object"],
)
def test_a_limit_on_file_sizes(registry, source, limit, message):
    """The limit is the system's own, so the compiler meets it as well."""
    with _files_no_larger_than(limit), pytest.raises(RegistryError) as error:
        registry.build([source(1)])
    assert str(error.value) == message.format(root=registry.root) + (
        "(`hetune registry gc`), or set HETUNE_CACHE to another folder"
    )
    assert registry.build([source(1)]).built == 1


@pytest.mark.parametrize("limit", [16, 4096], ids=["writing the source", "writing the object"])
def test_no_space_anywhere(registry, source, limit):
    nowhere = pytest.raises(RegistryError, match="neither the kernel registry nor a")
    with _files_no_larger_than(limit), nowhere:
        registry.load(source(1))
    assert registry.load(source(1)).answer() == 1


def test_no_place_to_write_at_all(tmp_path, toolchain, source, monkeypatch):
    (tmp_path / "file").write_text("")
    registry = Registry(tmp_path / "file" / "kernels", toolchain=toolchain)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(RegistryError) as error:
        registry.load(source(1))
    assert str(error.value) == (
        "neither the kernel registry nor a temporary folder can be written (Not a directory): "
        "free some space, or set HETUNE_CACHE to another folder"
    )
