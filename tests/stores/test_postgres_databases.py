"""Two databases of one PostgreSQL: each has locks of its own."""

from __future__ import annotations

import pytest

from redisson_py import MultiLock
from redisson_py.postgres import Postgres
from tests.stores.postgres_scene import connected
from tests.stores.postgres_server import running_postgres


async def test_one_name_in_two_databases_is_two_locks() -> None:
    with running_postgres() as server:
        async with connected(server.url) as user:
            await user.execute("CREATE DATABASE second")
        urls = server.url, server.url_of("postgres", "second")
        async with Postgres.from_url(urls[0]) as one, Postgres.from_url(urls[1]) as two:
            async with MultiLock(one.get_lock("same"), two.get_lock("same")):
                assert await one.get_lock("same").locked()
                assert await two.get_lock("same").locked()
            with pytest.raises(ValueError, match=r"one lock for PostgreSQL .*/second, .*/second"):
                async with MultiLock(two.get_lock("same"), two.get_fenced_lock("same")):
                    pass
