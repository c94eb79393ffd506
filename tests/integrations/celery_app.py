"""A Celery app with a client made at import, as docs/sync.md has it.

CELERY_FOLDER has its queues, its results and what its tasks write; CELERY_REDIS names the server.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_ready

from redisson_py.sync import Redisson

NAME = "tests.integrations.celery_app"


def make_app(folder: Path) -> Celery:
    """Return an app whose queues are files, which parent, children and tests share."""
    for each in ("queue", "control", "results"):
        (folder / each).mkdir(exist_ok=True)
    app = Celery(NAME, broker="filesystem://", backend=f"file://{folder}/results")
    queue = str(folder / "queue")
    app.conf.broker_transport_options = {
        "data_folder_in": queue,
        "data_folder_out": queue,
        "control_folder": str(folder / "control"),
        # Or each message would wait for a second.
        "polling_interval": 0.05,
    }
    app.conf.worker_redirect_stdouts = False
    return app


FOLDER = Path(os.environ.get("CELERY_FOLDER", "."))
#: How long a killed worker keeps others waiting.
client = Redisson.from_url(os.environ.get("CELERY_REDIS", "redis://127.0.0.1:1"), lease_time=4)
lock = client.get_lock("k")
app = make_app(FOLDER) if "CELERY_FOLDER" in os.environ else Celery(NAME)


@worker_ready.connect  # type: ignore[untyped-decorator]
def say_ready(**_: object) -> None:
    """Tell the test that the worker has its signal handlers."""
    (FOLDER / f"ready:{os.getpid()}").touch()


@app.task(name=f"{NAME}.add")  # type: ignore[untyped-decorator]
@lock
def add() -> tuple[int, str]:
    """Add one to a number in a file, which two at once would do wrong."""
    number = FOLDER / "number"
    before = int(number.read_text())
    time.sleep(0.002)
    number.write_text(str(before + 1))
    return os.getpid(), client.id


@app.task(name=f"{NAME}.hold")  # type: ignore[untyped-decorator]
def hold() -> None:
    """Hold the lock until somebody ends this process."""
    with lock:
        (FOLDER / "holder").write_text(str(os.getpid()))
        time.sleep(3600)


@app.task(name=f"{NAME}.hold_too_long", soft_time_limit=3)  # type: ignore[untyped-decorator]
def hold_too_long() -> bool:
    """Run into the time limit with the lock, or waiting for it; return whether it is held then."""
    try:
        with lock:
            time.sleep(3600)
    except SoftTimeLimitExceeded:
        return lock.owned()
    raise AssertionError("there is no limit")


@app.task(name=f"{NAME}.wait_too_long", soft_time_limit=3)  # type: ignore[untyped-decorator]
def wait_too_long() -> tuple[int, int]:
    """Run into the time limit while waiting; return who waits and what is held then."""
    try:
        with lock:
            raise AssertionError("it is not free")
    except SoftTimeLimitExceeded:
        statistics = client.statistics()
        return statistics.waiters, statistics.held_leases
