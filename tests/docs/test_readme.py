"""README.md: what its first screen shows, and that its first example leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.docs import given
from tests.docs.pages import PAGES, blocks_of
from tests.docs.stores import StoreServers
from tests.docs.test_code_blocks import run_python
from tests.fixtures.client import ClientFactory

pytestmark = pytest.mark.heart

README = PAGES[0]
#: Lines, with empty ones.
ONE_SCREEN = 50

#: How users know it: these stay as they are.
FIXED = (
    'async with client.get_lock("k")',
    'await client.get_semaphore("s", 5).acquire()',
    'await client.get_latch("job").wait()',
)


def test_its_first_screen_has_a_program_and_the_two_commands() -> None:
    screen = "\n".join(README.read_text("utf-8").splitlines()[:ONE_SCREEN])
    for each in ("asyncio.run(main())", "git clone", "\nmake demo\n", "\nmake test\n"):
        assert each in screen


def test_first_example_has_the_lines_that_stay() -> None:
    first = blocks_of(README)[0].code
    assert all(line in first for line in FIXED)


async def test_first_example_gives_everything_back(
    server_url: str, clients: ClientFactory, redis: Redis, stores: StoreServers, tmp_path: Path
) -> None:
    client = clients()
    names = given.names(client, server_url)
    await run_python(blocks_of(README)[0], names, server_url, tmp_path, stores)
    assert await client.get_semaphore("s").available() == 5
    assert not await client.get_lock("k").locked()
    assert await client.get_latch("job").count() == 0
    # Semaphores stay in Redis for ever.
    await redis.flushdb()
