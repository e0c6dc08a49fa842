"""The content-addressed store of compiled kernels."""

import ctypes
import hashlib
import logging
import os
import shlex
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future, as_completed
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import platformdirs

from hetune.variants.errors import CompileError
from hetune.variants.fork_locks import new_lock
from hetune.variants.registry import upkeep
from hetune.variants.registry.build_jobs import jobs_of, pool_of
from hetune.variants.registry.folder import DamagedEntryError, FolderUnusableError, KernelFolder
from hetune.variants.registry.library import GoneError, LoadError, open_library
from hetune.variants.registry.openmp import share_openmp_with_torch
from hetune.variants.registry.records import (
    FORMAT,
    BinaryCompiler,
    BuildReport,
    GcReport,
    KernelEntry,
    KernelManifest,
    KernelSource,
    Loads,
    VerifyReport,
)
from hetune.variants.registry.temporary_folder import check_temporary_room, says_full, temporary_io
from hetune.variants.registry.toolchain import Toolchain

_log = logging.getLogger(__name__)


class Registry:
    """Compiled kernels by the SHA-256 of everything that decides what they are.

    Safe with many threads and processes at once. Creating one does no I/O.

    Args:
        root: folder of the binaries; by default `kernels` in $HETUNE_CACHE, or else in the user's
            cache folder.
        quota_bytes: size above which the entries used longest ago are removed.
        toolchain: the compiler; detected at first need by default.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        quota_bytes: int = 2 << 30,
        toolchain: BinaryCompiler | None = None,
    ) -> None:
        self.root = _default_root() if root is None else Path(root)
        self.quota_bytes = quota_bytes
        self._toolchain = toolchain
        self._folder = KernelFolder(self.root)
        self._mutex = new_lock()
        self._loaded: dict[str, ctypes.CDLL] = {}
        self._loads = Loads()
        self._temporary: Path | None = None
        self._trusted = False

    @property
    def toolchain(self) -> BinaryCompiler:
        """The compiler. Raises CompileError where there is none."""
        if self._toolchain is None:
            self._toolchain = Toolchain.detect()
        return self._toolchain

    def key(self, source: KernelSource) -> str:
        """SHA-256, in hexadecimal digits, over all that decides what the binary is.

        That is the text, the recipe, the registry's format, the compiler's identity, its options
        and the CPU's features; not the name.
        """
        chain = self.toolchain
        fields = (
            str(FORMAT),
            chain.identity,
            shlex.join(chain.flags),
            shlex.join(chain.link_flags),
            shlex.join(shlex.split(chain.compiler)[1:]),
            chain.cpu,
            source.recipe,
            source.text,
        )
        # Each field with its length: two lists of fields never read as the same bytes.
        return hashlib.sha256(
            b"".join(b"%d:%b" % (len(raw), raw) for raw in (f.encode() for f in fields))
        ).hexdigest()

    def load(self, source: KernelSource) -> ctypes.CDLL:
        """The compiled kernel: from memory, from disk (digest checked), or compiled now.

        Where the folder cannot be written, the kernel is compiled into a temporary folder that
        lives as long as this registry, and one warning is logged.

        Raises:
            CompileError: the compiler is missing, or refused the source.
            RegistryError: others could put binaries into the folder.
        """
        key = self.key(source)
        library = self._loaded.get(key)
        if library is not None:
            self._count("memory")
            return library
        share_openmp_with_torch()
        library = self._load_stored(key)
        where = "disk"
        if library is None:
            where = "compiled"
            _log.info("compiling the kernel %s", source.name)
            try:
                library = self._load_compiled(key, source)
            except BaseException:
                self._count("failed")
                raise
        self._count(where)
        with self._mutex:
            return self._loaded.setdefault(key, library)

    def holds(self, source: KernelSource) -> bool:
        """Whether loading would compile nothing, as far as can be told without reading the kernel.

        Raises:
            CompileError: There is no compiler, so that nobody can say which kernel is meant.
        """
        key = self.key(source)
        if key in self._loaded:
            return True
        with suppress(OSError):  # the folder may be out of reach
            return self._folder.binary(key).exists()
        return False

    def find(self, source: KernelSource) -> bytes | None:
        """The binary if it is on disk and sound (digest checked); None if not. Compiles nothing.

        Raises:
            CompileError: the compiler, whose version is part of the key, is missing.
            RegistryError: others could put binaries into the folder.
        """
        key = self.key(source)
        try:
            found = self._folder.read_binary(key) if self._folder.exists() else None
        except (DamagedEntryError, FolderUnusableError):
            return None
        if found is None:
            return None
        self._folder.touch(key)
        return found[1]

    def reject(self, source: KernelSource, binary: bytes, reason: str) -> None:
        """Quarantine a binary that `find` gave and that cannot be loaded."""
        self._reject(self.key(source), hashlib.sha256(binary).hexdigest(), reason)

    def build(
        self,
        sources: Iterable[KernelSource],
        *,
        jobs: int | None = None,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> BuildReport:
        """Compile what is not there yet, several at once.

        Args:
            sources: kernels; those with equal keys are compiled once.
            jobs: compilers at once; by default HETUNE_JOBS, or else one per processor.
            progress: called after each kernel, in the caller's thread, with how many are done,
                how many there are, and the kernel's name.

        Raises:
            CompileError: there is no compiler. (A kernel that fails is reported, not raised.)
            RegistryError: the folder cannot be written.
        """
        start = time.perf_counter()
        unique = {self.key(source): source for source in sources}
        self._folder.prepare()
        self._folder.sweep()
        built = size = 0
        failed: dict[str, str] = {}
        with pool_of(jobs_of(jobs)) as pool:
            futures: dict[Future[tuple[KernelManifest, bool]], str] = {
                pool.submit(self._ensure, key, source): key for key, source in unique.items()
            }
            for done, future in enumerate(as_completed(futures), start=1):
                key = futures[future]
                name = unique[key].name
                try:
                    manifest, fresh = future.result()
                    built += fresh
                    size += manifest.bytes
                except CompileError as error:
                    failed[name if name not in failed else f"{name} ({key[:12]})"] = str(error)
                if progress is not None:
                    progress(done, len(unique), name)
        self._enforce_quota()
        reused = len(unique) - built - len(failed)
        return BuildReport(built, reused, failed, time.perf_counter() - start, size)

    def check_room(self) -> None:
        """Checks that another kernel could be kept, in the folder or in a temporary one.

        Raises:
            RegistryError: There is no space, or others could put binaries into the folder.
        """
        with suppress(FolderUnusableError):
            self._folder.check_room()
            return
        check_temporary_room()

    def entries(self) -> list[KernelEntry]:
        """All entries with a readable manifest, the most recently used first."""
        return upkeep.entries(self._folder)

    def verify(self) -> VerifyReport:
        """Check the digest of every entry, and quarantine those that fail."""
        return upkeep.verify(self._folder)

    def gc(self, quota_bytes: int | None = None) -> GcReport:
        """Sweep what nobody can load, then evict the longest unused down to the quota.

        That is what killed builds left, entries of another format, and those with a part missing.

        What this process has loaded is never evicted, nor what another process is building.

        Args:
            quota_bytes: bytes to keep at most; the registry's quota by default.
        """
        quota = self.quota_bytes if quota_bytes is None else quota_bytes
        return upkeep.collect(self._folder, quota, self._loaded.__contains__)

    @property
    def loads(self) -> Loads:
        """How often `load` was called on this object, by where kernels came from."""
        return self._loads

    def size(self) -> tuple[int, int]:
        """How many kernels are in the folder, and their bytes.

        Raises:
            RegistryError: it cannot be read.
        """
        return len(self._folder.list_keys()), self._folder.size()

    def _count(self, what: str) -> None:
        with self._mutex:
            self._loads = replace(self._loads, **{what: getattr(self._loads, what) + 1})

    def _load_stored(self, key: str) -> ctypes.CDLL | None:
        """The kernel if it is on disk and sound; takes no lock."""
        try:
            self._trusted = self._trusted or self._folder.exists()
            manifest = self._folder.read(key) if self._trusted else None
        except (DamagedEntryError, FolderUnusableError):
            return None  # looked at again under the lock, when it is compiled
        if manifest is None:
            return None
        self._folder.touch(key)  # before it is opened, so that others evict it last
        try:
            return open_library(self._folder.binary(key))
        except GoneError:
            return None
        except LoadError as error:
            self._reject(key, manifest.sha256, str(error))
            return None

    def _load_compiled(self, key: str, source: KernelSource, *, again: bool = True) -> ctypes.CDLL:
        """The kernel, compiled into the folder, or into a temporary one if that cannot be used.

        Args:
            key: the source's.
            source: what is compiled.
            again: whether to compile once more what is evicted before it is opened.
        """
        path, sha256 = self._folder.binary(key), ""
        try:
            if self._temporary is None:
                sha256 = self._ensure(key, source)[0].sha256
        except FolderUnusableError as error:
            self._go_temporary(error)
        if self._temporary is not None:
            path = self._compile_temporary(key, source)
        try:
            library = open_library(path)
        except LoadError as error:
            if again and isinstance(error, GoneError):
                return self._load_compiled(key, source, again=False)
            if self._temporary is None:
                self._reject(key, sha256, str(error))
            raise CompileError(
                f"the kernel {source.name} compiles but cannot be loaded ({error}): check that the "
                f"compiler makes code for this machine and that {path.parent} is not mounted "
                "noexec, or set HETUNE_CXX or HETUNE_CACHE to others"
            ) from error
        with self._mutex:
            self._loaded.setdefault(key, library)  # before evicting, so that it is spared
        with suppress(FolderUnusableError):
            self._enforce_quota()
        return library

    def _go_temporary(self, why: FolderUnusableError) -> None:
        with self._mutex:
            if self._temporary is None:
                with temporary_io():
                    folder = Path(tempfile.mkdtemp(prefix="hetune-"))
                _log.warning("%s. Until then each process compiles its kernels anew", why)
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
                self._temporary = folder

    def _compile_temporary(self, key: str, source: KernelSource) -> Path:
        assert self._temporary is not None
        path = self._temporary / f"{key}.so"
        with temporary_io():
            self.toolchain.compile(source.text, path)
        return path

    def _reject(self, key: str, sha256: str, reason: str) -> None:
        """Quarantine an entry that cannot be loaded, unless another binary is in its place now."""
        with suppress(DamagedEntryError, FolderUnusableError):
            self._folder.prepare()
            with self._folder.lock(key):
                manifest = self._folder.read(key)
                if manifest is not None and manifest.sha256 == sha256:
                    self._folder.quarantine(key, f"it cannot be loaded: {reason}")

    def _ensure(self, key: str, source: KernelSource) -> tuple[KernelManifest, bool]:
        """A good entry of this key on disk; whether it was compiled now."""
        with suppress(DamagedEntryError):
            manifest = self._folder.read(key)
            if manifest is not None:
                self._folder.touch(key)
                return manifest, False
        self._folder.prepare()
        with self._folder.lock(key):
            # Another process may have built it while this one waited for the lock.
            damaged = upkeep.quarantine_if_damaged(self._folder, key)
            manifest = None if damaged else self._folder.read(key)
            if manifest is not None:
                return manifest, False
            with self._folder.stage(key) as stage:
                staged = stage / "kernel.so"
                try:
                    self.toolchain.compile(source.text, staged)
                except CompileError as error:
                    if says_full(error):
                        raise FolderUnusableError(
                            f"the disk of the kernel registry {self.root} is full: free some space "
                            "(`hetune registry gc`), or set HETUNE_CACHE to another folder"
                        ) from error
                    raise
                manifest = self._describe(key, source, staged.read_bytes())
                self._folder.publish(manifest, staged)
            return manifest, True

    def _describe(self, key: str, source: KernelSource, binary: bytes) -> KernelManifest:
        chain = self.toolchain
        return KernelManifest(
            format=FORMAT,
            key=key,
            name=source.name,
            recipe=source.recipe,
            sha256=hashlib.sha256(binary).hexdigest(),
            bytes=len(binary),
            created=time.time(),
            compiler=f"{chain.compiler} ({chain.identity})",
            flags=" ".join((*chain.flags, *chain.link_flags)),
            cpu=chain.cpu,
        )

    def _enforce_quota(self) -> None:
        upkeep.enforce_quota(self._folder, self.quota_bytes, self._loaded.__contains__)


def _default_root() -> Path:
    cache = os.environ.get("HETUNE_CACHE") or platformdirs.user_cache_dir("hetune")
    return Path(cache).expanduser().absolute() / "kernels"
