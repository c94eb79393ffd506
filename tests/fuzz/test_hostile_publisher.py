"""Messages of somebody who may only publish wake waiters in vain, and do nothing else."""

from __future__ import annotations

import pytest

from redisson_py.testing import embedded_server
from tests.fuzz.hostile_publisher import play


@pytest.mark.parametrize("seed", range(3))
async def test_messages_are_never_taken_for_grants(seed: int) -> None:
    async with embedded_server() as url:
        assert await play(seed, url) > 0
