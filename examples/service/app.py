"""The service; the package's docstring says how to run it and what it answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse

from examples.service.ledger import AlreadyPaidError, Ledger, StaleTokenError
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
    """Close the client at the end, which frees at once what a request still holds."""
    async with client:
        yield


app = FastAPI(title="Orders", lifespan=lifespan)


@app.post("/orders/{order}/pay")
async def pay(order: str, idempotency_key: Annotated[str, Header()]) -> dict[str, str]:
    """Pay an order once, whatever keys it is asked with."""
    done = False
    try:
        async with client.get_fenced_lock(f"order:{order}") as lease:
            if ledger.begin(order, idempotency_key, lease.token):
                await _charge(order)
                ledger.enter(order, idempotency_key, lease.token)
            done = True
    except LeaseLostError:
        if not done:
            raise
        # The ledger has the entry: the loss came too late to matter.
    return {"paid": order}


async def _charge(order: str) -> None:
    """Stand for the call to the bank.

    It sends the order as the bank's idempotency key, not the key of the request: if a process dies
    between the charge and the entry, the next request repeats this charge and makes no second one.
    """
    await asyncio.sleep(0.02)


@app.get("/health")
async def health() -> dict[str, str]:
    """Say whether Redis answers; it has half a second."""
    await client.ping(timeout=0.5)
    return {"redis": "answers"}


# The answers to errors.


@app.exception_handler(AlreadyPaidError)
async def already_paid(request: Request, error: AlreadyPaidError) -> JSONResponse:
    """Answer that another request has paid this order."""
    return JSONResponse({"error": "already paid"}, 409)


@app.exception_handler(AcquireTimeoutError)
async def busy(request: Request, error: AcquireTimeoutError) -> JSONResponse:
    """Answer that another request is working on this order."""
    return JSONResponse({"error": "busy"}, 409, {"Retry-After": "1"})


@app.exception_handler(ConnectionLostError)
async def no_answer(request: Request, error: ConnectionLostError) -> JSONResponse:
    """Answer that Redis is away; the client releases what it may hold when Redis answers."""
    return JSONResponse({"error": "no answer", "why": str(error)}, 503, {"Retry-After": "2"})


@app.exception_handler(LeaseLostError)
async def lost(request: Request, error: LeaseLostError) -> JSONResponse:
    """Answer that the lock was lost before the ledger had the entry."""
    return JSONResponse({"error": "lost", "reason": error.reason}, 503, {"Retry-After": "1"})


@app.exception_handler(StaleTokenError)
async def stale(request: Request, error: StaleTokenError) -> JSONResponse:
    """Answer that the ledger has seen a newer holder of the lock."""
    return JSONResponse({"error": "lost", "reason": "a newer holder"}, 503, {"Retry-After": "1"})


@app.exception_handler(ClientClosedError)
async def closing(request: Request, error: ClientClosedError) -> JSONResponse:
    """Answer that this process is ending; another one can answer."""
    return JSONResponse({"error": "closing"}, 503, {"Retry-After": "0"})
