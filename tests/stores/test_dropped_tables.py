"""What a client says whose table was dropped or altered: one line each time, with what to do."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from redisson_py import BackendError, ConnectionLostError, LeaseLostError, ReleaseFailedError
from tests.stores.backends import Backend
from tests.stores.conftest import NewClient
from tests.stores.postgres.scene import connected
from tests.support.waiting import until

TABLE = "redisson_py_locks"
Run = Callable[[str], Awaitable[None]]

pytestmark = pytest.mark.parametrize("backend", ["postgres", "mysql"], indirect=True)


@pytest_asyncio.fixture
async def run(backend: Backend) -> AsyncIterator[Run]:
    """Run SQL on the server; the next client makes the table anew."""

    async def run(statement: str) -> None:
        if "postgres" in backend.url:
            async with connected(backend.url) as raw:
                await raw.execute(statement)
        else:
            await backend.server.sql(statement)

    yield run
    await run(f"DROP TABLE IF EXISTS {TABLE}")


@pytest.mark.parametrize(
    "change", [f"DROP TABLE {TABLE}", f"ALTER TABLE {TABLE} DROP COLUMN expires"]
)
async def test_a_table_that_is_gone_takes_one_line_to_say(
    new_client: NewClient, run: Run, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = new_client()
    lease = await client.get_lock("held").acquire()
    await run(change)
    await until(lambda: any("refused to renew" in each.message for each in caplog.records))
    told = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    with pytest.raises(BackendError) as refused:
        await client.get_lock("another").acquire()
    assert not isinstance(refused.value, ConnectionLostError)
    told.append(str(refused.value))
    with pytest.raises((ReleaseFailedError, LeaseLostError, BackendError)) as failed:
        await lease.release()
    told.append(str(failed.value))
    for line in told:
        assert "\n" not in line
        assert TABLE in line
        assert "schema_sql()" in line
