"""Real servers and workers with a client made at import: they start, fork, end by SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx
import pytest
import redis as redis_py
from redis.asyncio import Redis
from starlette.testclient import TestClient

from tests.fixtures.client import ClientFactory
from tests.support import repository
from tests.support.waiting import until_async
from tests.system.deployed import make_app

GUNICORN = ["gunicorn", "--preload", "-w", "2", "-k", "uvicorn_worker.UvicornWorker"]
#: Each request has a connection of its own, so that any worker may get it.
ONCE = {"Connection": "close"}
SERVERS = {
    "uvicorn": (1, ["uvicorn", "--fd", "{fd}"]),
    "uvicorn-asyncio": (1, ["uvicorn", "--loop", "asyncio", "--fd", "{fd}"]),
    "gunicorn": (2, [*GUNICORN, "-b", "fd://{fd}"]),
}


@asynccontextmanager
async def program(
    *arguments: str, listener: socket.socket | None = None, **variables: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a module; in the end it must have been ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", *arguments),
        cwd=repository.ROOT,
        env={**os.environ, **variables},
        pass_fds=() if listener is None else (listener.fileno(),),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def answers(http: httpx.AsyncClient, path: str) -> bool:
    try:
        return (await http.get(path)).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("kind", SERVERS)
async def test_server_works_and_ends_at_once(
    kind: str, server_url: str, redis: Redis, clients: ClientFactory
) -> None:
    workers, command = SERVERS[kind]
    await redis.set("jobs", 10_000)
    held = await clients().get_lock("held").acquire()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd = str(listener.fileno())
        arguments = [each.replace("{fd}", fd) for each in command]
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with (
            program(
                *arguments, "tests.system.deployed:app", listener=listener, SERVICE_REDIS=server_url
            ) as process,
            httpx.AsyncClient(base_url=base, timeout=40, trust_env=False, headers=ONCE) as http,
        ):
            # What no worker has accepted is not to wait for ever.
            listener.close()
            await until_async(lambda: answers(http, "/work"), 30)
            found = await served_by(http, workers)
            # Each process is a client of its own.
            assert len({row["id"] for row in found}) == workers
            assert all(row["owner"].startswith(row["id"]) for row in found)
            # One for the request that waited for the start, perhaps more.
            assert int(await redis.get("jobs") or 0) <= 10_000 - len(found) - 1

            before = int(await redis.get("jobs") or 0)
            waiting = [asyncio.create_task(http.get("/wait")) for _ in range(4)]
            names = [f"hold-{number}" for number in range(4)]
            holding = [asyncio.create_task(http.get(f"/hold/{name}")) for name in names]

            async def all_there() -> bool:
                come = before - int(await redis.get("jobs") or 0)
                return await redis.exists(*names) == len(names) and come == len(waiting)

            await until_async(all_there, 30)
            process.send_signal(signal.SIGTERM)
            _, errors = await asyncio.wait_for(process.communicate(), 50)
            for request, error in [
                *((each, "ClientClosedError") for each in waiting),
                *((each, "LeaseLostError") for each in holding),
            ]:
                answer = await request
                assert (answer.status_code, answer.json()) == (503, {"error": error})
    assert process.returncode in (0, -signal.SIGTERM), errors.decode()
    assert "Traceback" not in errors.decode()
    # Leases are of ten minutes: they were released.
    assert await redis.exists(*names) == 0
    rows: list[dict[str, Any]] = await redis.client_list()
    assert not [row for row in rows if row["name"] == "deployed"]
    await held.release()
    await redis.delete("jobs")


async def served_by(http: httpx.AsyncClient, workers: int) -> list[dict[str, Any]]:
    """Ask until so many processes have answered; return the answers."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while len({row["pid"] for row in found}) < workers:
            for answer in await asyncio.gather(*[http.get("/work") for _ in range(20)]):
                assert answer.status_code == 200
                found.append(answer.json())
    return found


@pytest.mark.parametrize("lifespan", [True, False], ids=["lifespan", "no lifespan"])
def test_two_test_clients_in_one_process(server_url: str, lifespan: bool) -> None:
    app = make_app(server_url)
    ids = set()
    with redis_py.Redis.from_url(server_url) as server:
        server.set("jobs", 100)
        for _ in range(2):
            http = TestClient(app)
            if lifespan:
                with http:
                    found = [http.get("/work") for _ in range(3)]
            else:
                # Each request has an event loop of its own.
                found = [http.get("/work") for _ in range(3)]
            assert [each.status_code for each in found] == [200] * 3
            ids |= {each.json()["id"] for each in found}
        assert server.get("jobs") == b"94"
        server.delete("jobs")
    assert len(ids) == (2 if lifespan else 1)
