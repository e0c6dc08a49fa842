"""Looking after the folder of kernels: what is in it, whether it is sound, what has to go."""

from collections.abc import Callable

from hetune.variants.registry.folder import DamagedEntryError, KernelFolder
from hetune.variants.registry.records import GcReport, KernelEntry, KernelManifest, VerifyReport


def entries(folder: KernelFolder) -> list[KernelEntry]:
    """All entries with a readable manifest, the most recently used first."""
    found = []
    for key in folder.list_keys():
        try:
            manifest = KernelManifest.from_json(folder.manifest(key).read_text("utf-8"))
            used = folder.binary(key).stat().st_mtime
        except (OSError, ValueError):
            continue  # `verify` reports it; or another process has just removed it
        found.append(
            KernelEntry(key, manifest.name, manifest.recipe, manifest.bytes, manifest.created, used)
        )
    return sorted(found, key=lambda entry: (-entry.last_used, entry.key))


def verify(folder: KernelFolder) -> VerifyReport:
    """Check the digest of every entry, and quarantine those that fail."""
    checked = 0
    bad: dict[str, str] = {}
    for key in folder.list_keys():
        try:
            if folder.read(key) is None:
                continue  # a build in progress, or a killed one's: `collect` sweeps it
            checked += 1
        except DamagedEntryError:
            folder.prepare()
            with folder.lock(key):
                reason = quarantine_if_damaged(folder, key)
            if reason:
                checked += 1
                bad[key] = reason
    return VerifyReport(checked, bad)


def collect(folder: KernelFolder, quota: int, is_loaded: Callable[[str], bool]) -> GcReport:
    """Sweep what nobody can load, then evict the longest unused down to the quota.

    Args:
        folder: where the kernels are.
        quota: bytes to keep at most.
        is_loaded: whether this process uses the kernel of a key, which spares it.
    """
    if not folder.exists():
        return GcReport((), 0, 0, 0)
    folder.prepare()
    swept = folder.sweep()
    kept = entries(folder)
    swept += _remove_unusable(folder, kept)
    evicted, freed = _evict(folder, kept, quota, is_loaded)
    return GcReport(evicted, freed, swept, sum(e.bytes for e in kept) - freed)


def enforce_quota(folder: KernelFolder, quota: int, is_loaded: Callable[[str], bool]) -> None:
    """Remove what nobody can load and the longest unused if the folder is over the quota."""
    if folder.size() > quota:
        kept = entries(folder)
        _remove_unusable(folder, kept)
        _evict(folder, kept, quota, is_loaded)


def quarantine_if_damaged(folder: KernelFolder, key: str) -> str:
    """The reason, or an empty text; the caller holds the key's lock."""
    try:
        folder.read(key)
    except DamagedEntryError as error:
        folder.quarantine(key, str(error))
        return str(error)
    return ""


def _remove_unusable(folder: KernelFolder, kept: list[KernelEntry]) -> int:
    """Remove what is no entry, unless it is being built; how many keys there were."""
    removed = 0
    known = {entry.key for entry in kept}
    for key in folder.list_keys():
        if key not in known:
            with folder.lock(key, wait=False) as mine:
                if mine and not _is_whole(folder, key):
                    folder.remove(key)
                    removed += 1
    return removed


def _is_whole(folder: KernelFolder, key: str) -> bool:
    """Whether a key has a binary, and a manifest of this format; the caller holds its lock."""
    try:
        KernelManifest.from_json(folder.manifest(key).read_text("utf-8"))
        folder.binary(key).stat()
    except (FileNotFoundError, ValueError):
        return False
    except OSError:
        return True  # nobody can tell
    return True


def _evict(
    folder: KernelFolder, kept: list[KernelEntry], quota: int, is_loaded: Callable[[str], bool]
) -> tuple[tuple[str, ...], int]:
    """Remove the entries used longest ago until the rest fits; their keys, and their bytes."""
    excess = sum(entry.bytes for entry in kept) - quota
    evicted: list[str] = []
    freed = 0
    for entry in reversed(kept):
        if freed >= excess:
            break
        if is_loaded(entry.key):
            continue
        with folder.lock(entry.key, wait=False) as mine:
            if mine:
                folder.remove(entry.key)
                evicted.append(entry.key)
                freed += entry.bytes
    return tuple(evicted), freed
