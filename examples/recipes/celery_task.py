"""Celery: a task that no two workers do at once for the same day."""

# pip install ./redisson_py celery

import os
from concurrent.futures import ThreadPoolExecutor

from celery import Celery
from celery.result import EagerResult

from redisson_py import AcquireTimeoutError
from redisson_py.sync import Redisson

# Nothing starts or connects here: each process of the prefork pool has a client of its own.
client = Redisson.from_url(os.environ.get("REDISSON_URL", "redis://localhost:6379/0"))
app = Celery("reports", broker="memory://")
written: list[str] = []


@app.task(autoretry_for=(AcquireTimeoutError,), retry_backoff=True, soft_time_limit=300)
@client.get_lock("report:{day}").hold(timeout=20)
def report(day: str) -> str:
    """Write the report unless it is there; a soft time limit releases the lock, too."""
    if day not in written:
        written.append(day)
        return f"wrote {day}"
    return f"{day} is there"


def work(day: str) -> str:
    """Do what a worker does with a message."""
    result: EagerResult = report.apply((day,))
    return str(result.get())


if __name__ == "__main__":
    app.finalize()  # a worker does it when it starts, and not in several threads at once
    with client, ThreadPoolExecutor(4) as workers:
        print(sorted(workers.map(work, ["monday", "monday", "tuesday", "monday"])))
