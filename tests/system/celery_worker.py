"""A Celery worker whose tasks call `asyncio.run` with a client made at import.

Run as `python -m tests.system.celery_worker URL`: solo pool, broker in memory. Prints what the
tasks returned, and ends by SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import Any

from celery import Celery

from redisson_py import Redisson

client = Redisson.from_url(sys.argv[1])
lock = client.get_lock("k")
app = Celery("worker", broker="memory://", backend="cache+memory://")
app.conf.worker_redirect_stdouts = False


async def locked(number: int) -> list[Any]:
    async with lock as lease:
        return [number, lease.owner]


@app.task  # type: ignore[untyped-decorator]
def work(number: int) -> list[Any]:
    """Do it."""
    return asyncio.run(locked(number))


def send() -> None:
    try:
        results = [work.delay(number) for number in range(5)]
        # The solo pool runs tasks in the process that sends them, so Celery takes us for a task.
        rows = [result.get(timeout=40, disable_sync_subtasks=False) for result in results]
        sys.stdout.write(json.dumps(rows) + "\n")
        sys.stdout.flush()
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=send, daemon=True).start()
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    app.worker_main(["worker", "--pool=solo", *quiet])
