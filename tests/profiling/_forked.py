"""Scripts beside this file in processes of their own: one that has imported all forks them.

It is read line by line what is to run, and with which arguments, and says how that ended.
"""

import atexit
import functools
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_SCRIPTS = ("killed_jobs", "killed_writers", "store_lives")
_MOST_SECONDS = 600


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Does what `python script.py arguments` does, and waits for its end."""
    process = _forks()
    with tempfile.TemporaryDirectory() as folder:
        try:
            process.stdin.write(json.dumps([script, arguments, folder]) + "\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # the next one must not read its answer
            process.wait()
            _forks.cache_clear()
            raise
        said = [Path(folder, name).read_text() for name in ("out", "err")]
    return subprocess.CompletedProcess([script, *arguments], status, *said)


@functools.cache
def _forks() -> subprocess.Popen[str]:
    command = [sys.executable, __file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, text=True, start_new_session=True)
    atexit.register(process.communicate)
    return process


def main() -> None:
    """What the process does."""
    for script in _SCRIPTS:
        __import__(script)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(*json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(script: str, arguments: list[str], folder: str) -> None:
    for number, name in enumerate(("out", "err"), start=1):
        os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT), number)
    signal.alarm(_MOST_SECONDS)
    sys.argv = [script, *arguments]
    status: object = 1
    try:
        runpy.run_path(str(_HERE / f"{script}.py"), run_name="__main__")
        status = 0
    except SystemExit as error:
        status = error.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
