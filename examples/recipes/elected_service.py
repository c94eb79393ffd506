"""An elected service: one coroutine, which runs in the process that leads, term after term."""

# pip install ./redisson_py

import asyncio
import os
from collections.abc import Awaitable, Callable

from redisson_py import BackendError, Election, Leadership, LeaseLostError, Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
Serve = Callable[[Leadership], Awaitable[None]]


async def serve_when_elected(election: Election, address: str, serve: Serve) -> None:
    """Run `serve` whenever this process leads; a term ends when it returns or is cancelled."""
    while True:
        try:
            async with election.campaign(address) as leadership:
                await serve(leadership)
        except LeaseLostError as loss:  # `serve` was cancelled; another process leads, or will
            print(f"{address} does not lead any more: {loss.reason}", flush=True)
        except BackendError as error:  # the server is away or refuses: nobody knows who leads
            print(f"{address} asks again: {error}", flush=True)
            await asyncio.sleep(1)


async def process(address: str) -> None:
    """One process, whose service ends its term by itself."""

    async def serve(leadership: Leadership) -> None:
        print(f"{address} serves, term {leadership.token}", flush=True)
        await asyncio.sleep(0.3)

    async with Redisson.from_url(URL) as client:
        await serve_when_elected(client.get_election("reports"), address, serve)


async def main() -> None:
    """Follow the leader through four terms."""
    processes = [asyncio.create_task(process(f"host-{number}:80")) for number in range(3)]
    async with Redisson.from_url(URL) as client:
        changes = 0
        async for leader in client.get_election("reports").observe():
            if leader is not None:
                print(f"clients ask {leader.text}", flush=True)
            if (changes := changes + 1) == 8:
                break
    print(f"{len(processes)} processes end")


if __name__ == "__main__":
    asyncio.run(main())
