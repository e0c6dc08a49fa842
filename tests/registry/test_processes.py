"""Several processes at once, and processes that die."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from hetune.variants.registry import Registry

BUILD = "report = registry.build([source]); print(report.built, report.reused)"


def _wait_for(path: Path, process) -> str:
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


def test_builders_of_one_key_compile_it_once(tmp_path, scripted, source, spawn):
    log = tmp_path / "log"
    chain = scripted(f'echo run >> {log}\nsleep 0.5\nexec $CXX "$@"')
    registry = Registry(tmp_path / "kernels", toolchain=chain)
    children = [spawn(BUILD, registry, source(3)) for _ in range(3)]
    said = [child.communicate(timeout=60) for child in children]
    assert sorted(out for out, _ in said) == ["0 1\n", "0 1\n", "1 0\n"], said
    assert log.read_text().splitlines() == ["run", "run"]  # once to compile, once to link
    assert registry.load(source(3)).answer() == 3


def test_threads_that_load_one_key_share_it(tmp_path, scripted, source):
    log = tmp_path / "log"
    chain = scripted(f'echo run >> {log}\nexec $CXX "$@"')
    registry = Registry(tmp_path / "kernels", toolchain=chain)
    with ThreadPoolExecutor(8) as pool:
        libraries = list(pool.map(registry.load, [source(3)] * 8))
    assert len({id(library) for library in libraries}) == 1
    assert log.read_text().splitlines() == ["run", "run"]


def test_kill_while_the_compiler_runs(tmp_path, scripted, toolchain, source, spawn):
    note = tmp_path / "compiler"
    slow = Registry(tmp_path / "kernels", toolchain=scripted(f"echo $$ > {note}\nexec sleep 60"))
    child = spawn(BUILD, slow, source(3))
    compiler = int(_wait_for(note, child))
    child.kill()
    child.communicate()
    os.kill(compiler, signal.SIGKILL)
    assert len(list((slow.root / "staging").iterdir())) == 1
    registry = Registry(slow.root, toolchain=toolchain)
    assert registry.key(source(3)) == slow.key(source(3))
    assert registry.load(source(3)).answer() == 3
    assert list((registry.root / "staging").iterdir()) == []


def test_gc_spares_a_build_that_is_alive(tmp_path, scripted, toolchain, source, spawn):
    note = tmp_path / "compiler"
    chain = scripted(f'[ -f {note} ] || {{ echo $$ > {note}; sleep 1; }}\nexec $CXX "$@"')
    registry = Registry(tmp_path / "kernels", toolchain=chain)
    child = spawn(BUILD, registry, source(3))
    _wait_for(note, child)
    assert registry.gc(0).swept == 0
    assert child.communicate(timeout=60)[0] == "1 0\n"


# For each line a process that builds in a folder, and dies at the n-th change of it: whatever
# Python creates, writes, renames or deletes. They are forks, for importing takes seconds.
DIE = """
import os, signal, sys

def build(n, root):
    left = n
    def hook(event, arguments):
        nonlocal left
        changes = event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod") or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & 3
        )
        if changes and any(str(a).startswith(root) for a in arguments):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    Registry(Path(root), toolchain=registry.toolchain).build([source])

for line in sys.stdin:
    n, root = line.rstrip().split(" ", 1)
    pid = os.fork()
    if pid == 0:
        try:
            build(int(n), root)
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(70)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def test_kill_at_every_change_of_the_folder(tmp_path, scripted, toolchain, source, spawn):
    """Whenever a build dies, the next one finds no wrong entry and cleans up."""
    toolchain.compile(source(3).text, tmp_path / "ready.so")
    quick = scripted(
        f"""
        for last in "$@"; do :; done
        case "$last" in *.so) cp {tmp_path}/ready.so "$last";; esac
        """
    )

    child = spawn(DIE, Registry(tmp_path / "kernels", toolchain=quick), source(3))

    def die_at(n: int) -> int:
        root = tmp_path / f"kernels-{n}"
        child.stdin.write(f"{n} {root}\n")
        child.stdin.flush()
        code = int(child.stdout.readline())
        assert code in (0, -signal.SIGKILL), child.communicate()
        after = Registry(root, toolchain=quick)
        assert after.verify().bad == {}
        assert all(entry.name == "answer-3" for entry in after.entries())
        report = after.build([source(3)])
        assert report.built + report.reused == 1
        assert after.verify().checked == 1
        assert after.load(source(3)).answer() == 3
        after.gc()
        assert list((root / "staging").iterdir()) == []
        return code

    codes = [die_at(1)]
    while codes[-1]:
        codes.append(die_at(len(codes) + 1))
    assert die_at(len(codes) + 1) == 0
    child.communicate()
    assert len(codes) > 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_can_be_taken_up(tmp_path, scripted, toolchain, source, spawn, number):
    note = tmp_path / "compiler"
    slow = Registry(
        tmp_path / "kernels", toolchain=scripted(f"echo $$ > {note}\nexec sleep 60", timeout_s=5.0)
    )
    # Shells make what they start in the background deaf to it.
    hears = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    child = spawn(hears + BUILD, slow, source(3))
    compiler = int(_wait_for(note, child))
    child.send_signal(number)
    child.communicate(timeout=30)
    assert child.returncode != 0
    if number == signal.SIGTERM:
        with suppress(ProcessLookupError):  # its time was up
            os.kill(compiler, signal.SIGKILL)
    assert Registry(slow.root, toolchain=toolchain).load(source(3)).answer() == 3
