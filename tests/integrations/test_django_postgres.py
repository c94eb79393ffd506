"""A Django site on PostgreSQL alone, without Redis: ATOMIC_REQUESTS, and a management command."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2 as httpx
import pytest

from redisson_py.sync.postgres import Postgres
from tests.fixtures.backends import Running
from tests.stores.backends import PostgresBackend
from tests.support import repository
from tests.support.waiting import until_async

SITE = "tests.integrations.django_postgres_site"


@pytest.fixture
def database(running_backend: Running) -> Iterator[PostgresBackend]:
    """A database with the number that the views add to."""
    backend = running_backend("postgres")
    assert isinstance(backend, PostgresBackend)
    asyncio.run(backend.sql("CREATE TABLE site AS SELECT 0 AS number"))
    yield backend
    asyncio.run(backend.sql("DROP TABLE site"))


async def number(database: PostgresBackend) -> int:
    ((found,),) = await database.sql("SELECT number FROM site")
    return int(found)


@contextmanager
def site(database: PostgresBackend, *command: str, fd: int = -1) -> Iterator[subprocess.Popen[str]]:
    """Run a module with the site's settings."""
    variables = {"SITE_DATABASE": database.url, "DJANGO_SETTINGS_MODULE": f"{SITE}.settings"}
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=repository.ROOT,
        env={**os.environ, **variables},
        pass_fds=() if fd < 0 else (fd,),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_no_request_overlaps_another_although_it_commits_later(
    database: PostgresBackend,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd = listener.fileno()
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = ("gunicorn", "--preload", "-w2", "--threads=4", f"-bfd://{fd}", f"{SITE}.wsgi")
        with site(database, *command, fd=fd) as server:
            async with httpx.AsyncClient(base_url=base, timeout=120, trust_env=False) as http:

                async def answers() -> bool:
                    try:
                        return (await http.get("/add_wrongly")).status_code == 200
                    except httpx.TransportError:
                        return False

                await until_async(answers, 60)
                paths = ["/add", "/add_inside", "/fail"] * 20
                found = await asyncio.gather(*[http.get(path) for path in paths])
                assert [each.status_code for each in found] == [200, 200, 500] * 20
                added = [each.json()["number"] for each in found if each.status_code == 200]
                assert sorted(added) == list(range(1, 41))
                assert await number(database) == 40
                error = (await http.get("/add_wrongly")).json()["error"]
                assert "guard needs a transaction" in error
            server.send_signal(signal.SIGTERM)
            _, errors = await asyncio.to_thread(server.communicate, timeout=60)
    assert "closing while still holding" not in errors
    assert "LeaseLostError" not in errors


def test_a_command_does_not_overlap_with_itself(database: PostgresBackend) -> None:
    with site(database, "django", "nightly") as first, site(database, "django", "nightly") as other:
        said = {process: process.stdout.readline() for process in (first, other) if process.stdout}
        assert sorted(said.values()) == ["", "started\n"]
        loser, winner = sorted(said, key=lambda process: said[process])
        _, errors = loser.communicate(timeout=60)
        assert (loser.returncode, errors) == (1, "CommandError: it runs already\n")
        assert asyncio.run(number(database)) == 0
        winner.communicate("go on\n", timeout=60)
        assert winner.returncode == 0
    assert asyncio.run(number(database)) == 1
    with Postgres.from_url(database.url) as store:
        assert not store.get_lock("nightly").locked()


def test_a_command_that_lost_its_lock_commits_nothing(database: PostgresBackend) -> None:
    with site(database, "django", "nightly") as stopped, Postgres.from_url(database.url) as store:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "started\n"
        stopped.send_signal(signal.SIGSTOP)
        # That stands for the end of its lease.
        assert store.get_lock("nightly").force_release()
        with store.get_lock("nightly"):
            stopped.send_signal(signal.SIGCONT)
            _, errors = stopped.communicate("go on\n", timeout=60)
        assert stopped.returncode == 1
        assert "LeaseLostError" in errors
    assert asyncio.run(number(database)) == 0
