"""Real Celery workers whose tasks take turns by a lock of `redisson_py.sync`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from celery import Celery

from redisson_py.sync import Redisson, _loop_thread
from tests.integrations import celery_app
from tests.integrations.celery_app import NAME
from tests.support import repository
from tests.sync.threads import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR")


@pytest.fixture(scope="module", autouse=True)
def loop_thread() -> None:
    """Start the thread of all clients: it stays, with its sockets, when a test is over."""
    _loop_thread.start()


@pytest.fixture
def app(tmp_path: Path) -> Celery:
    """The app from outside: it sends, and gets the results."""
    (tmp_path / "number").write_text("0")
    return celery_app.make_app(tmp_path)


@contextmanager
def worker(folder: Path, url: str, pool: str) -> Iterator[subprocess.Popen[str]]:
    """Run a worker; in the end it ends as Celery has it end, and has nothing to complain of."""
    variables = {"CELERY_FOLDER": str(folder), "CELERY_REDIS": url}
    process = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", NAME, "worker", f"--pool={pool}", "-c3", *QUIET],
        cwd=repository.ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
        # The other worker may have done all the work before this one had its signal handlers.
        until((folder / f"ready:{process.pid}").exists, 60)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
        assert process.returncode == 0, errors
    finally:
        process.kill()
        process.communicate()


def sent(app: Celery, task: str, times: int = 1) -> list[Any]:
    """Have a task done; return what the results can be asked for."""
    return [app.send_task(f"{NAME}.{task}") for _ in range(times)]


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_no_task_overlaps_another(pool: str, app: Celery, tmp_path: Path, server_url: str) -> None:
    results = sent(app, "add", 45)
    with worker(tmp_path, server_url, pool), worker(tmp_path, server_url, pool):
        found = [each.get(timeout=100) for each in results]
    assert (tmp_path / "number").read_text() == "45"
    pids, ids = ({row[place] for row in found} for place in (0, 1))
    # Each process is a client of its own, in which nothing of the parent is left.
    assert len(pids) == len(ids)
    if pool == "prefork":
        assert len(pids) > 2


def test_a_killed_worker_keeps_others_waiting_for_a_lease(
    app: Celery, tmp_path: Path, server_url: str, look: redis_py.Redis
) -> None:
    sent(app, "hold")
    with worker(tmp_path, server_url, "prefork"):
        until(lambda: (tmp_path / "holder").exists() and (tmp_path / "holder").read_text(), 60)
        assert look.exists("k")
        (result,) = sent(app, "add")
        os.kill(int((tmp_path / "holder").read_text()), signal.SIGKILL)
        result.get(timeout=60)
    assert (tmp_path / "number").read_text() == "1"


def test_a_soft_time_limit_releases_the_lock(
    app: Celery, tmp_path: Path, server_url: str, look: redis_py.Redis
) -> None:
    with worker(tmp_path, server_url, "prefork"):
        for result in sent(app, "hold_too_long", 2):
            assert result.get(timeout=60) is False
        # The children are still there; the lease alone would not free it so soon.
        assert not look.exists("k")


def test_a_soft_time_limit_ends_a_wait(
    app: Celery, tmp_path: Path, server_url: str, look: redis_py.Redis
) -> None:
    with Redisson.from_url(server_url) as client, client.get_lock("k"):
        with worker(tmp_path, server_url, "prefork"):
            (result,) = sent(app, "wait_too_long")
            assert result.get(timeout=60) == [0, 0]


@pytest.fixture
def look(server_url: str) -> Iterator[redis_py.Redis]:
    """A plain client, to look with."""
    with redis_py.Redis.from_url(server_url) as client:
        yield client
