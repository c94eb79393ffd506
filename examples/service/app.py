"""The service itself; see the package for how to run it and what it answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse

from examples.service.ledger import Ledger, StaleTokenError
from redisson_py import (
    AcquireTimeoutError,
    ClientClosedError,
    ConnectionLostError,
    LeaseLostError,
    Redisson,
)

# Nothing connects yet.
client = Redisson.from_url(
    os.environ.get("REDISSON_URL", "redis://localhost:6379/0"),
    command_timeout=2,
    acquire_timeout=1,
    client_name="orders",
)
ledger = Ledger(os.environ.get("LEDGER", "ledger.sqlite"))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Close the client in the end: what a request still holds is free at once."""
    async with client:
        yield


app = FastAPI(title="Orders", lifespan=lifespan)


@app.post("/orders/{order}/pay")
async def pay(order: str, idempotency_key: Annotated[str, Header()]) -> dict[str, str]:
    """Pay an order, one request at a time."""
    entered = False
    try:
        async with client.get_fenced_lock(f"order:{order}") as lease:
            await _ask_the_bank()
            ledger.enter(idempotency_key, order, lease.token)
            entered = True
    except LeaseLostError:
        if not entered:
            raise
        # The ledger took the token: the loss came too late to matter.
    return {"paid": order}


async def _ask_the_bank() -> None:
    """Take a while, as a bank does. It can be asked again: that is what the key is for."""
    await asyncio.sleep(0.02)


@app.get("/health")
async def health() -> dict[str, str]:
    """Say whether Redis answers; it has half a second."""
    await client.ping(timeout=0.5)
    return {"redis": "answers"}


# What went wrong, in the words of HTTP.


@app.exception_handler(AcquireTimeoutError)
async def busy(request: Request, error: AcquireTimeoutError) -> JSONResponse:
    """Tell that somebody else is at it."""
    return JSONResponse({"error": "busy"}, 409, {"Retry-After": "1"})


@app.exception_handler(ConnectionLostError)
async def no_answer(request: Request, error: ConnectionLostError) -> JSONResponse:
    """Tell that nobody knows; what may be held is given back when Redis answers."""
    return JSONResponse({"error": "no answer", "why": str(error)}, 503, {"Retry-After": "2"})


@app.exception_handler(LeaseLostError)
async def lost(request: Request, error: LeaseLostError) -> JSONResponse:
    """Tell that the lock was lost before anything was entered."""
    return JSONResponse({"error": "lost", "reason": error.reason}, 503, {"Retry-After": "1"})


@app.exception_handler(StaleTokenError)
async def stale(request: Request, error: StaleTokenError) -> JSONResponse:
    """Tell that the ledger knew of the loss before the lock did."""
    return JSONResponse({"error": "lost", "reason": "a newer holder"}, 503, {"Retry-After": "1"})


@app.exception_handler(ClientClosedError)
async def closing(request: Request, error: ClientClosedError) -> JSONResponse:
    """Tell that this process ends; another one will answer."""
    return JSONResponse({"error": "closing"}, 503, {"Retry-After": "0"})
