"""A PostgreSQL server of a test's own, to be stopped and started."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

SECONDS = 60


class Server:
    """A server on a socket in a folder.

    Attributes:
        url: Of its database.
        folder: Of its socket.
        programs: Folder of PostgreSQL's programs.
    """

    def __init__(self, folder: Path, programs: Path, user: str | None) -> None:
        self.folder, self.programs = folder, programs
        self._as = () if user is None else ("runuser", "-u", user, "--")
        self.url = f"postgresql+psycopg://hetune@/postgres?host={folder}"

    def create(self) -> None:
        """Makes its data, once."""
        self._run("initdb", "--username=hetune", "--auth=trust", "--no-sync", "--locale=C")

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        self._run("pg_ctl", "--wait", f"--log={self.folder}/log", f"--options={options}", "start")

    def crash(self) -> None:
        """Ends it at once: what is under way is lost, and what was committed has to be there."""
        self._run("pg_ctl", "--mode=immediate", "stop")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Meanwhile nothing of it runs: connections are taken by the system, and not answered."""
        first = int(Path(self.folder, "data", "postmaster.pid").read_text().split()[0])
        processes = [psutil.Process(first), *psutil.Process(first).children(recursive=True)]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, self.programs / program, "-D", self.folder / "data", *arguments]
        with Path(self.folder, "said").open("ab") as said:
            subprocess.run(
                command, cwd=self.folder, stdout=said, stderr=said, timeout=SECONDS, check=True
            )


@contextmanager
def own_server() -> Iterator[Server]:
    """One that runs; the test is skipped where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    # Debian keeps the server's programs off the PATH.
    programs = [Path(found).resolve()] if found else []
    programs += sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if not programs:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    # On a path that is short: a socket's may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="hetune-", dir="/tmp") as name:
        user = None
        if os.geteuid() == 0:  # which the server refuses to run as
            known = {entry.pw_name for entry in pwd.getpwall()}
            user = "postgres" if "postgres" in known else "nobody"
            shutil.chown(name, user)
        server = Server(Path(name), programs[0].parent, user)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.crash()
