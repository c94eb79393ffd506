"""A batch scheduler: take the lock, submit the job, and let the job have the lock."""

# pip install ./redisson_py

import asyncio
import os
import sys

from redisson_py import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")


async def submit(table: str) -> asyncio.subprocess.Process:
    """Submit the job, which keeps the table's lock until it ends; here it is a process."""
    async with Redisson.from_url(URL) as client:
        async with client.get_lock(f"table:{table}").hold(timeout=20) as lease:
            # From now on for an hour, in which the job must start; then the table is free.
            token = await lease.hand_over(lease_time=3600)
        # With Slurm: sbatch --export=ALL,LOCK_TOKEN job.py
        env = {**os.environ, "LOCK_TOKEN": token}
        return await asyncio.create_subprocess_exec(sys.executable, __file__, "job", env=env)


async def job() -> None:
    """Adopt the lock, work, and release it; the lease is renewed as long as that takes."""
    token = os.environ["LOCK_TOKEN"]
    async with Redisson.from_url(URL) as client, await client.adopt(token) as lease:
        busy = await client.get_lock(lease.name).locked()
        print(f"the job works under {lease.name!r}: {busy}", flush=True)


async def main() -> None:
    """Submit a job, and see that its lock is free when it has ended."""
    submitted = await submit("users")
    await submitted.wait()
    async with Redisson.from_url(URL) as client, client.get_lock("table:users"):
        print("the table is free")


if __name__ == "__main__":
    asyncio.run(job() if sys.argv[1:] == ["job"] else main())
