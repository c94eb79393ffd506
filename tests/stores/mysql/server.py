"""A real MariaDB server for tests: started in a temporary folder, killed, stopped, and resumed."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncmy

from redisson_py.testing._configuration import free_port
from redisson_py.testing._process import GuardedProcess

DATABASE = "locks"
USER, PASSWORD = "app", "pä:w@rd/1"
#: Logs in as USER does, but may not make the table.
POOR_USER = "poor"
_ADMIN = "admin"
_START_TIME = 60.0
_INITIAL = f"""\
CREATE DATABASE IF NOT EXISTS {DATABASE};
CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON {DATABASE}.* TO '{USER}'@'%';
CREATE USER IF NOT EXISTS '{POOR_USER}'@'%' IDENTIFIED BY '{PASSWORD}';
GRANT SELECT, INSERT, UPDATE ON {DATABASE}.* TO '{POOR_USER}'@'%';
CREATE USER IF NOT EXISTS '{_ADMIN}'@'%' IDENTIFIED BY 'admin';
GRANT ALL ON *.* TO '{_ADMIN}'@'%' WITH GRANT OPTION;
"""


class MariaDBNotFoundError(FileNotFoundError):
    """Raised where MariaDB is not installed."""


class MariaDB:
    """One server. Its time zone has daylight saving, and its binary log has statements."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._program = _found("mariadbd")
        self._folder = folder
        self._options = options
        self._process: GuardedProcess | None = None
        self.port = free_port()
        (folder / "initial.sql").write_text(_INITIAL, "utf-8")
        (folder / "temporary").mkdir()
        _install(folder)

    def start(self) -> None:
        """Start it, on the same port each time; return when it takes connections."""
        folder = self._folder
        command = [
            *("env", "TZ=Europe/Berlin", self._program, "--no-defaults", *_as_root()),
            *(*_folders(folder), f"--socket={folder / 'socket'}"),
            *(f"--pid-file={folder / 'pid'}", f"--init-file={folder / 'initial.sql'}"),
            *(f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve"),
            *("--innodb-buffer-pool-size=16M", "--character-set-server=utf8mb4"),
            *("--log-bin=binary-log", "--binlog-format=STATEMENT", *self._options),
        ]
        self._process = GuardedProcess(command, folder / "log")
        end = time.monotonic() + _START_TIME
        while not self._answers():
            if not self._process.running or time.monotonic() > end:
                raise RuntimeError((folder / "log").read_text(errors="replace"))
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Stop the process: it answers nothing."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.resume()

    def url(self, arguments: str = "", user: str = USER, port: int | None = None) -> str:
        """Return the URL for a user, at another port if it is that of a proxy."""
        password = quote(PASSWORD, safe="")
        at = port or self.port
        return f"mysql://{user}:{password}@127.0.0.1:{at}/{DATABASE}{arguments}"

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[Any]:
        """Give a cursor that may do everything."""
        connection = await asyncmy.connect(
            host="127.0.0.1",
            port=self.port,
            user=_ADMIN,
            password="admin",
            database=DATABASE,
            autocommit=True,
        )
        try:
            cursor = connection.cursor()
            await cursor.execute("SET sql_select_limit = 1000000")
            yield cursor
        finally:
            connection.close()
            await asyncio.sleep(0)

    async def sql(self, *statements: str) -> tuple[tuple[Any, ...], ...]:
        """Carry statements out as an administrator, and return the rows of the last one."""
        async with self.admin() as cursor:
            rows: tuple[tuple[Any, ...], ...] = ()
            for statement in statements:
                await cursor.execute(statement)
                rows = tuple(await cursor.fetchall()) if cursor.description else ()
            return rows

    @asynccontextmanager
    async def settings(self, **values: str) -> AsyncIterator[None]:
        """Change defaults of the server for the time of a block."""
        async with self.admin() as cursor:
            before = {}
            for name, value in values.items():
                await cursor.execute(f"SELECT @@GLOBAL.{name}")
                before[name] = (await cursor.fetchall())[0][0]
                await cursor.execute(f"SET GLOBAL {name} = {value}")
            try:
                yield
            finally:
                for name, old in before.items():
                    await cursor.execute(f"SET GLOBAL {name} = %s", (old,))

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as link:
                # The greeting: protocol version 10 comes behind four bytes.
                return link.recv(5)[4:] == b"\n"
        except OSError:
            return False


@contextmanager
def running_mariadb(*options: str) -> Iterator[MariaDB]:
    """Start a fresh server for the time of a block."""
    folder = Path(tempfile.mkdtemp(prefix="redisson-py-mariadb-"))
    server = None
    try:
        server = MariaDB(folder, *options)
        server.start()
        yield server
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _install(folder: Path) -> None:
    done = subprocess.run(
        [
            *(_found("mariadb-install-db"), "--no-defaults", *_as_root()),
            *(*_folders(folder), "--skip-test-db", "--innodb-log-file-size=4M"),
            "--auth-root-authentication-method=normal",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_START_TIME,
    )
    if done.returncode:
        raise RuntimeError(done.stdout)


def _folders(folder: Path) -> list[str]:
    # A server that starts deletes all temporary tables in its folder of them, which is /tmp as a
    # rule: those of another one that is being installed too.
    return [f"--datadir={folder / 'data'}", f"--tmpdir={folder / 'temporary'}"]


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _found(program: str) -> str:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        raise MariaDBNotFoundError(f"{program} not found: install Debian's mariadb-server")
    return path
