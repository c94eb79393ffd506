"""Names, URLs, files and arguments of somebody else: an error that says what is wrong, or none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from redisson_py import Redisson
from tests.fuzz import inputs


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    logger = logging.getLogger("redisson_py")
    level = logger.level
    inputs.quiet()
    yield
    logger.setLevel(level)


@pytest.mark.parametrize("seed", range(10))
def test_a_url_is_read_or_refused(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        inputs.read_url(random)


@pytest.mark.parametrize("seed", range(10))
def test_a_file_is_read_or_refused_by_its_name(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    for _ in range(20):
        inputs.read_file(random, tmp_path)


@pytest.mark.parametrize("seed", range(5))
def test_the_command_line_never_ends_by_a_traceback(seed: int) -> None:
    random = Random(seed)
    assert {inputs.run_command(random) for _ in range(20)} <= {0, 1, 2, 69, 75}


@pytest.mark.parametrize("seed", range(5))
async def test_a_name_is_one_lock_or_is_refused(client: Redisson, seed: int) -> None:
    random, seen = Random(seed), dict[str | bytes, bytes]()
    for _ in range(40):
        said = inputs.name(random)
        try:
            lock = client.get_lock(said)
        except ValueError:
            continue
        raw = said if isinstance(said, bytes) else said.encode()
        # The key is the name: no two names share one, and no name reaches another one's key.
        assert lock._ownership.commands.key == raw
        seen[said] = raw
        async with lock:
            assert await lock.locked()
        assert not await lock.locked()
    assert seen
