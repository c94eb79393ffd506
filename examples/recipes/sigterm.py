"""SIGTERM, as Kubernetes sends it: finish the job, or give it up in time; release either way."""

import asyncio
import os
import signal

from redisson_py import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
GRACE = 20.0  # below terminationGracePeriodSeconds, 30 s by default


async def work(client: Redisson, stopping: asyncio.Event) -> None:
    """Do one job after the other, each under its lock, until told to stop."""
    number = 0
    while not stopping.is_set():
        number += 1
        async with client.get_lock(f"job:{number}"):
            print(f"job {number} begins")
            if number == 2:
                os.kill(os.getpid(), signal.SIGTERM)  # the deployment goes on, for example
            await asyncio.sleep(0.2)
            print(f"job {number} is done")


async def main() -> None:
    """Work until SIGTERM; then the job under way has some seconds to end."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with Redisson.from_url(URL) as client:
        worker = asyncio.create_task(work(client, stopping))
        await stopping.wait()
        _, late = await asyncio.wait([worker], timeout=GRACE)
        await client.aclose()  # a late job is cancelled, and its lock is free at once
        await asyncio.gather(worker, return_exceptions=True)
    print("gave the job up" if late else "stopped between two jobs")


if __name__ == "__main__":
    asyncio.run(main())
