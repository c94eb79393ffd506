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
def workers(folder: Path, url: str, pool: str, count: int = 1) -> Iterator[None]:
    """Run workers; in the end they end as Celery has them end, with nothing to complain of."""
    variables = {"CELERY_FOLDER": str(folder), "CELERY_REDIS": url}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", NAME, "worker", f"--pool={pool}", "-c3", *QUIET],
            cwd=repository.ROOT,
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    try:
        yield
        for process in processes:
            # Another may have done all the work before this one had its signal handlers.
            until((folder / f"ready:{process.pid}").exists, 60)
            process.send_signal(signal.SIGTERM)
        for process in processes:
            _, errors = process.communicate(timeout=60)
            assert "Traceback" not in errors
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def sent(app: Celery, task: str, times: int = 1) -> list[Any]:
    """Have a task done; return what the results can be asked for."""
    return [app.send_task(f"{NAME}.{task}") for _ in range(times)]


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_no_task_overlaps_another(pool: str, app: Celery, tmp_path: Path, server_url: str) -> None:
    results = sent(app, "add", 45)
    with workers(tmp_path, server_url, pool, 2):
        found = [each.get(timeout=100) for each in results]
    assert (tmp_path / "number").read_text() == "45"
    pids, ids = ({row[column] for row in found} for column in (0, 1))
    # Each process is a client of its own, in which nothing of the parent is left.
    assert len(pids) == len(ids)
    if pool == "prefork":
        assert len(pids) > 1


def test_soft_time_limits_and_a_killed_child_free_the_lock(
    app: Celery, tmp_path: Path, server_url: str
) -> None:
    with (
        redis_py.Redis.from_url(server_url) as look,
        Redisson.from_url(server_url) as client,
        workers(tmp_path, server_url, "prefork"),
    ):
        for result in sent(app, "hold_too_long", 2):
            assert result.get(timeout=60) is False
        # The children are still there; the lease alone would not free it so soon.
        assert not look.exists("k")
        with client.get_lock("k"):
            (result,) = sent(app, "wait_too_long")
            assert result.get(timeout=60) == [0, 0]
        sent(app, "hold")
        until(lambda: (tmp_path / "holder").exists() and (tmp_path / "holder").read_text(), 60)
        assert look.exists("k")
        (result,) = sent(app, "add")
        os.kill(int((tmp_path / "holder").read_text()), signal.SIGKILL)
        result.get(timeout=60)
    assert (tmp_path / "number").read_text() == "1"
