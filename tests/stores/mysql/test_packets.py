"""A server that takes short queries only: more of them go, or one that must be longer is told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from redisson_py._stores.contract import Renewal
from redisson_py._stores.mysql import MySQLStore, sql
from redisson_py.errors import BackendError, ConnectionLostError
from tests.stores.databases import granted, holder, new_name, owner, soon, wish
from tests.stores.mysql.scene import started
from tests.stores.mysql.server import MariaDB

#: Bytes of a query, with its command, that the server does not take any more.
LIMIT = 4096
HOLDS = 100


@pytest.fixture
async def narrow(server: MariaDB) -> AsyncIterator[MySQLStore]:
    # The greater of the two decides.
    async with server.settings(net_buffer_length="2048", max_allowed_packet=f"{LIMIT}"):
        async with started(server.url()) as store:
            yield store


async def test_a_batch_of_renewals_is_cut_to_what_the_server_takes(narrow: MySQLStore) -> None:
    holds: list[Renewal] = []
    for _ in range(HOLDS):
        name, who = new_name(), owner()
        answer = await granted(narrow, name, who)
        holds.append(Renewal(name, who, answer.token, 60.0))
    assert len(sql.renew(holds)) > 10 * LIMIT
    *kept, strange = await narrow.renew([*holds, Renewal("nobody's", owner(), 1, 60.0)], soon())
    assert strange is None
    assert None not in kept


async def test_a_query_that_cannot_be_cut_is_reported(narrow: MySQLStore) -> None:
    """The longest that the server takes passes; one of a byte more names the limit."""
    who = owner()

    def length(name: str) -> int:
        return len(sql.ask(name, who, 30.0, 1))

    most = max(size for size in range(1, LIMIT) if length("x" * size) < LIMIT - 1)
    name = "x" * most
    await granted(narrow, name, who)
    assert await holder(narrow, name) == who
    with pytest.raises(BackendError, match="set its max_allowed_packet to at least") as caught:
        await narrow.ask(wish(name + "x", owner()), soon())
    assert not isinstance(caught.value, ConnectionLostError)
