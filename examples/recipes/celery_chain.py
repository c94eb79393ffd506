"""Celery: the steps of a chain hold one lock together, in whichever workers they run."""

# pip install ./redisson_py celery

import os

from celery import Celery, chain
from celery.result import EagerResult

from redisson_py.sync import Redisson

client = Redisson.from_url(os.environ.get("REDISSON_URL", "redis://localhost:6379/0"))
app = Celery("etl", broker="memory://")
QUEUED = 600  # seconds that a step may wait for a worker; then the lock is free


@app.task
def extract(table: str) -> tuple[str, str]:
    """Take the lock of the table; the next step gets it with the result."""
    with client.get_fenced_lock(f"etl:{table}").hold(timeout=20) as lease:
        return f"rows of {table}", lease.hand_over(lease_time=QUEUED)


@app.task
def load(extracted: tuple[str, str]) -> str:
    """Go on under the same lock; a message that is delivered twice gets a NotHeldError."""
    rows, token = extracted
    with client.adopt(token) as lease:
        lease.check()  # the warehouse can refuse an older lease.token, too
        return f"loaded {rows} under {lease.name!r}"


if __name__ == "__main__":
    app.conf.task_always_eager = True  # a worker does this: both steps run in this process
    with client:
        result: EagerResult = chain(extract.s("users"), load.s()).apply_async()
        print(result.get())
        print("free again:", not client.get_fenced_lock("etl:users").locked())
