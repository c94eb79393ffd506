"""SIGTERM, as Kubernetes sends it: finish the job, or give it up in time; release either way."""

# pip install ./redisson_py

import asyncio
import os
import signal

from redisson_py import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
GRACE = 20.0  # below terminationGracePeriodSeconds, 30 s by default


async def work(client: Redisson, stopping: asyncio.Event) -> None:
    """Do one job after the other, each under its lock, until asked to stop."""
    while not stopping.is_set():
        async with client.get_lock("job"):
            print("a job begins")
            await asyncio.sleep(0.2)
            print("it is done")


async def main() -> None:
    """Work until SIGTERM; then the current job may end, within `GRACE` seconds."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.call_later(0.5, signal.raise_signal, signal.SIGTERM)  # stands for a deployment
    async with Redisson.from_url(URL) as client:
        worker = asyncio.create_task(work(client, stopping))
        worker.add_done_callback(lambda _: stopping.set())  # if it fails, the process ends, too
        await stopping.wait()
        await asyncio.wait([worker], timeout=GRACE)
        await client.aclose()  # cancels a job that is late; its lock is free at once
        await worker  # LeaseLostError if the job was late
    print("stopped between two jobs")


if __name__ == "__main__":
    asyncio.run(main())
