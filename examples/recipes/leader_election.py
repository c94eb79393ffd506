"""Leader election: one of several processes leads, until it ends or loses its lease."""

# pip install ./redisson_py

import asyncio
import os

from redisson_py import BackendError, LeaseLostError, Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
Led = asyncio.Queue[Redisson]


async def stand(name: str, led: Led) -> None:
    """Lead whenever no other candidate does; the token numbers the terms."""
    async with Redisson.from_url(URL) as client:
        while True:
            try:
                async with client.get_fenced_lock("leader:reports") as lease:
                    print(f"{name} leads, term {lease.token}", flush=True)
                    led.put_nowait(client)
                    await asyncio.sleep(3600)  # the work of the leader
            except LeaseLostError as loss:  # the work was cancelled; anyone may lead next
                print(f"{name} does not lead any more: {loss.reason}", flush=True)
            except BackendError as error:  # Redis is away or refuses: nobody knows who leads
                print(f"{name} asks again: {error}", flush=True)
                await asyncio.sleep(1)


async def main() -> None:
    """End two terms, and look who leads next."""
    led: Led = asyncio.Queue()
    candidates = [asyncio.create_task(stand(name, led)) for name in ("ann", "bob", "eve")]
    for _ in range(2):
        await (await led.get()).get_fenced_lock("leader:reports").force_release()
    await led.get()
    print(f"{len(candidates)} candidates end, as asyncio.run cancels them")


if __name__ == "__main__":
    asyncio.run(main())
