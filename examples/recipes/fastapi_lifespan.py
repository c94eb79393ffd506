"""FastAPI: one client for the process, closed by the lifespan; busy is a 409."""

# pip install ./redisson_py fastapi httpx2

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
    """Close the client at the end, which frees at once what a request still holds."""
    async with client:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reports/{day}")
async def write_report(day: str) -> dict[str, str]:
    """Write a report, one request at a time in all processes."""
    try:
        async with client.get_lock(f"report:{day}"):
            return {"written": day}
    except AcquireTimeoutError as error:
        raise HTTPException(409, "another request is writing this report") from error


async def main() -> None:
    """Send a request while the report is locked, and one afterwards."""
    async with (
        lifespan(app),
        AsyncClient(transport=ASGITransport(app), base_url="http://a") as http,
    ):
        async with client.get_lock("report:monday"):
            busy = await asyncio.create_task(http.post("/reports/monday"))
        done = await http.post("/reports/monday")
    print(f"while it is locked: {busy.status_code}; afterwards: {done.status_code} {done.text}")


if __name__ == "__main__":
    asyncio.run(main())
