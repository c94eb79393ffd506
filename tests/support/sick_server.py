"""A server that cannot save its data: it answers every write with MISCONF."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from redisson_py.testing import EmbeddedServer
from tests.support.waiting import until_async


@asynccontextmanager
async def unable_to_save(server: EmbeddedServer) -> AsyncGenerator[Redis]:
    """Have the server refuse every write of the block, as on a full disk."""
    async with Redis.from_url(server.url) as admin:
        # Where the snapshot should go there is a folder.
        (server.directory / "dump.rdb" / "full").mkdir(parents=True)
        await admin.config_set("save", "3600 1000000000")
        await admin.bgsave()
        await until_async(lambda: _cannot_save(admin))
        yield admin
        # It saves no more, so it may write again.
        await admin.config_set("save", "")


async def _cannot_save(redis: Redis) -> bool:
    return bool((await redis.info("persistence"))["rdb_last_bgsave_status"] == "err")
