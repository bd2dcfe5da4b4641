"""Debian's PostgreSQL on loopback, with a data folder of its own; it asks for passwords there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from tests.boards.ssh.sshd import free_port
from tests.waiting import until

PASSWORD = "s3/cr@t?"  # noqa: S105  # what an address cannot hold as it is
USER = "team"
_NOBODY = 65534  # root may not run a server
_UNPACKED = Path(__file__).parents[3] / ".venv" / "postgres"  # by tools/servers.sh, where the system has none


def _programs() -> Path:
    """Return the folder of initdb and postgres."""
    for root in (Path("/"), _UNPACKED):
        programs = list(root.glob("usr/lib/postgresql/*/bin/initdb"))
        if programs:
            return max(programs, key=lambda file: int(file.parts[-3])).parent
    program = shutil.which("initdb")
    assert program, "no PostgreSQL here: tools/servers.sh unpacks one"
    return Path(program).parent


@dataclass
class Postgres:
    """A server that runs, or not."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    schemas: int = 0

    def url(self, database: str = "postgres", user: str = USER, password: str | None = PASSWORD) -> str:
        """Return the address of a database."""
        password_part = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{user}{password_part}@127.0.0.1:{self.port}/{database}"

    def new(self) -> str:
        """Make a schema, empty; return the address at which it is all there is. A database takes longer."""
        self.schemas += 1
        self.sql(f"CREATE SCHEMA s{self.schemas}")
        return f"{self.url()}?options=-csearch_path%3Ds{self.schemas}"

    def sql(self, statement: str, url: str = "") -> list[tuple[Any, ...]]:
        """Do something as the user who may do everything; return what it finds."""
        import psycopg

        with psycopg.connect(url or self.url(), autocommit=True) as db:
            cursor = db.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        options = ["fsync=off", "jit=off", "shared_buffers=16MB", "max_connections=20", "log_statement=all"]
        argv: list[str | Path] = [_programs() / "postgres", "-D", self.folder / "data", "-p", str(self.port)]
        argv += [
            "-h",
            "127.0.0.1",
            "-k",
            self.folder,
            *(part for option in options for part in ("-c", option)),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stderr=log, stdout=log, text=False, **_as_nobody()
            )
        until(self._answers, what="an answer of PostgreSQL")

    def stop(self) -> None:
        """End it as a machine that loses its power does."""
        assert self.process is not None
        family = [
            self.process.pid,
            *(p.pid for p in psutil.Process(self.process.pid).children(recursive=True)),
        ]
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(60)
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        self.process = None

    def suspended(self) -> list[psutil.Process]:
        """Return the processes that serve connections, to be stopped and continued."""
        assert self.process is not None
        return [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children()]

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        ready = [_programs() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, env=_environment(), check=False, timeout=60).returncode == 0


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server in a folder of its own, which the user that it runs as must be able to reach."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    server = Postgres(folder, free_port())
    try:
        (folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (folder, folder / "password"):
                os.chown(path, _NOBODY, _NOBODY)
        argv = [
            _programs() / "initdb",
            "-D",
            folder / "data",
            "-U",
            USER,
            "--no-sync",
            "--no-locale",
            "-E",
            "UTF8",
        ]
        argv += ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={folder}/password"]
        initdb = subprocess.run(
            argv, capture_output=True, text=True, timeout=300, check=False, **_as_nobody()
        )
        assert initdb.returncode == 0, initdb.stderr
        server.start()
        yield server
    finally:
        if server.process is not None:
            server.stop()
        shutil.rmtree(folder)


def _environment() -> dict[str, str]:
    """Let an unpacked server find the libraries that were unpacked with it."""
    folders = [*_UNPACKED.glob("usr/lib/*-linux-gnu"), *_UNPACKED.glob("lib/*-linux-gnu")]
    libraries = ":".join(map(str, folders))
    return {**os.environ, **({"LD_LIBRARY_PATH": libraries} if libraries else {})}


def _as_nobody() -> dict[str, Any]:
    who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    return {**who, "env": _environment(), "cwd": "/tmp"}
