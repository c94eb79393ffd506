"""FastAPI: one client for the process, closed by the lifespan; busy is a 409."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from httpx2 import ASGITransport, AsyncClient

from redisson_py import AcquireTimeoutError, Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
client = Redisson.from_url(URL, acquire_timeout=0.5)  # connects at the first use


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Close the client in the end: what a request still holds is free at once."""
    async with client:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}/pay")
async def pay(order: str) -> dict[str, str]:
    """Pay an order, one request at a time in all processes."""
    try:
        async with client.get_lock(f"order:{order}"):
            return {"paid": order}
    except AcquireTimeoutError as error:
        raise HTTPException(409, "another request is paying this order") from error


async def main() -> None:
    """Send a request while the order is locked, and one afterwards."""
    async with (
        lifespan(app),
        AsyncClient(transport=ASGITransport(app), base_url="http://a") as http,
    ):
        async with client.get_lock("order:17"):
            busy = await asyncio.create_task(http.post("/orders/17/pay"))
        paid = await http.post("/orders/17/pay")
    print(f"while it is locked: {busy.status_code}; afterwards: {paid.status_code} {paid.text}")


if __name__ == "__main__":
    asyncio.run(main())
