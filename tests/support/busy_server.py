"""A server that is busy with a script: it answers nearly every command with BUSY."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py.testing import EmbeddedServer
from tests.support.waiting import until_async


@asynccontextmanager
async def busy_with_a_script(server: EmbeddedServer) -> AsyncGenerator[None]:
    """Have the server answer BUSY to all commands of the block."""
    async with Redis.from_url(server.url) as admin, Redis.from_url(server.url) as other:
        await admin.config_set("lua-time-limit", 20)
        script = asyncio.ensure_future(other.eval("while true do end", 0))
        await until_async(lambda: is_busy(admin))
        try:
            yield
        finally:
            await admin.script_kill()
            with pytest.raises(ResponseError):
                await script


async def is_busy(redis: Redis) -> bool:
    """Return whether the server answers with BUSY."""
    try:
        # Not about a key: a node of a cluster may say that it is elsewhere.
        await redis.echo("x")
    except ResponseError as error:
        return "BUSY" in str(error)
    return False
