"""FastAPI: five requests a second for each user, then 429; an outgoing client that waits."""

# pip install ./redisson_py fastapi httpx2

import asyncio
import math
import os

from fastapi import Depends, FastAPI, HTTPException
from httpx2 import ASGITransport, AsyncClient

from redisson_py import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
client = Redisson.from_url(URL, idle_lifetime=3600)  # forgets users who stay away
app = FastAPI()


async def limited(user: str) -> None:
    """Refuse a request that is too many, and say when the next one may come."""
    admission = await client.get_rate_limiter(f"requests:{user}", 5, per=1).try_acquire()
    if not admission:
        seconds = math.ceil(admission.retry_after)
        raise HTTPException(429, "too many requests", {"Retry-After": str(seconds)})


@app.get("/reports/{user}", dependencies=[Depends(limited)])
async def read_reports(user: str) -> dict[str, str]:
    """Answer a request."""
    return {"of": user}


@client.get_rate_limiter("weather-api", 10, per=1)
async def call_weather_api(number: int) -> int:
    """Call a service that allows ten calls a second, from all processes together."""
    return number


async def main() -> None:
    """Send more requests than a user may, and make more calls than the service allows."""
    async with client, AsyncClient(transport=ASGITransport(app), base_url="http://a") as http:
        answers = [await http.get("/reports/anna") for _ in range(6)]
        print(*(each.status_code for each in answers), answers[-1].headers.get("Retry-After"))
        calls = await asyncio.gather(*(call_weather_api(number) for number in range(15)))
        print(f"{len(calls)} calls")


if __name__ == "__main__":
    asyncio.run(main())
