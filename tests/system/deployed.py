"""A small service with a client made at import, as docs/deployment.md has it.

`/work` takes a turn; `/wait` waits for a lock without a timeout; `/hold/{name}` holds one until
somebody ends it. Run it under uvicorn or gunicorn; SERVICE_REDIS names the server.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from redisson_py import ClientClosedError, LeaseLostError, Redisson

#: So long that only a release frees anything while a test looks.
LEASE_TIME = 600


def make_app(url: str) -> Starlette:
    """Return the service."""
    client = Redisson.from_url(url, lease_time=LEASE_TIME, client_name="deployed")
    shared, held = client.get_lock("turn"), client.get_lock("held")
    jobs = client.get_latch("jobs")

    async def work(request: Request) -> JSONResponse:
        async with shared.hold(timeout=20) as lease:
            await jobs.count_down()
            return JSONResponse({"pid": os.getpid(), "id": client.id, "owner": lease.owner})

    async def wait(request: Request) -> JSONResponse:
        # Tells the test that it has come.
        await jobs.count_down()
        async with held:
            return JSONResponse({})

    async def hold(request: Request) -> JSONResponse:
        async with client.get_lock(request.path_params["name"]):
            await asyncio.sleep(3600)
        return JSONResponse({})

    async def gone(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": type(error).__name__}, status_code=503)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        stop_server = signal.getsignal(signal.SIGTERM)
        closing = set[asyncio.Task[None]]()

        def terminate() -> None:
            if callable(stop_server):
                stop_server(signal.SIGTERM, None)
            closing.add(loop.create_task(client.aclose()))

        # Not in a test client, which runs in a thread of its own.
        if threading.current_thread() is threading.main_thread():
            loop.add_signal_handler(signal.SIGTERM, terminate)
        async with client:
            yield

    return Starlette(
        routes=[Route("/work", work), Route("/wait", wait), Route("/hold/{name}", hold)],
        exception_handlers={ClientClosedError: gone, LeaseLostError: gone},
        lifespan=lifespan,
    )


app = make_app(os.environ.get("SERVICE_REDIS", "redis://127.0.0.1:1"))
