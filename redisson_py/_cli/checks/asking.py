"""Where to ask, and asking: several commands, several servers at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import anyio

from redisson_py._addresses import Address
from redisson_py._cli.servers import Servers as NamedServers
from redisson_py._client import context_of
from redisson_py._options import Options
from redisson_py._redis.config.read import read_config
from redisson_py._redis.redis_py import (
    Connector,
    Servers,
    ask_once,
    servers_from_target,
    servers_from_url,
)
from redisson_py.errors import BackendError

#: How many commands a server must answer within one time limit.
ASKED_TOGETHER = 12

Words = tuple[str, ...]
A = TypeVar("A")
B = TypeVar("B")


class Target(NamedTuple):
    """Where to read, and as whom.

    Attributes:
        servers: How to connect.
        options: The options of its clients.
        limit: Seconds that a server has for a few answers, connecting included.
    """

    servers: Servers
    options: Options
    limit: float

    def mapped(self, host: str, port: int) -> Address:
        """Return where an announced address is reached.

        Raises:
            AddressMapError: The user's map failed.
        """
        function = self.options.address_map
        return (host, port) if function is None else function(host, port)

    @property
    def confirms(self) -> Literal["auto"] | int:
        """How many replicas must confirm a grant."""
        return self.options.replicas_where(self.servers.topology)


def target_of(named: NamedServers, limit: float) -> Target:
    """Return where to read, from the options of the command line.

    Raises:
        click.UsageError: They name no servers, or what names them is not usable.
    """
    options = context_of(named.client()).options
    if named.url is not None:
        return Target(servers_from_url(named.url, options.client_name), options, limit)
    assert named.config is not None
    servers, _ = read_config(named.config, ())
    return Target(servers_from_target(servers, options.client_name), options, limit)


async def ask_all(connector: Connector, limit: float, questions: Sequence[Words]) -> list[Any]:
    """Return the replies to many commands, as `ask_once`, which waits for each before the next.

    A server that is far away has the same time for every few of them.
    """
    replies: list[Any] = []
    for start in range(0, len(questions), ASKED_TOGETHER):
        replies += await ask_once(connector, limit, *questions[start : start + ASKED_TOGETHER])
    return replies


async def ask_or_error(
    connector: Connector, target: Target, questions: Sequence[Words]
) -> list[Any] | BackendError:
    """Return the replies, or the error if there are none."""
    try:
        return await ask_once(connector, target.limit, *questions)
    except BackendError as error:
        return error


async def gather(items: Sequence[A], work: Callable[[A], Coroutine[Any, Any, B]]) -> list[B]:
    """Return the results of one task for each of these, in their order."""
    results: dict[int, B] = {}

    async def one(n: int, item: A) -> None:
        results[n] = await work(item)

    async with anyio.create_task_group() as group:
        for n, item in enumerate(items):
            group.start_soon(one, n, item)
    return [results[n] for n in range(len(items))]
