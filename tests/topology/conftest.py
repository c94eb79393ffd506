"""Fakes for tests of topologies."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.topology.fakes import Scene


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    """Fake servers and Sentinels."""
    async with Scene() as scene:
        yield scene
