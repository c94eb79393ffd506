"""Finds the one master among several servers, by what each says of itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from redisson_py._addresses import Address, write_address
from redisson_py._loop import loop_time, time_limit, wait_for_all
from redisson_py._redis.stream.handshake import is_master
from redisson_py._redis.topology.choice import Failure, not_found
from redisson_py._redis.topology.finder import Attempt, Finder, abandon, opened
from redisson_py._redis.topology.sentinels import ASK_SECONDS
from redisson_py.errors import BackendError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import AbstractConnection, Connector


class ReplicatedFinder(Finder):
    """Asks the servers themselves: the master is the only one that says so of itself.

    Args:
        connector: The settings for all servers.
        addresses: Where they are.
        on_elsewhere: As for a `Finder`.
    """

    def __init__(
        self,
        connector: Connector,
        addresses: Iterable[Address],
        *,
        on_elsewhere: Callable[[str], None],
    ) -> None:
        super().__init__(connector, on_elsewhere)
        self._addresses = tuple(dict.fromkeys(addresses))

    def _looked_for(self) -> str:
        return f"the master of {', '.join(write_address(*each) for each in self._addresses)}"

    async def open(self, limit: float) -> AbstractConnection:
        """Return a connection to the only master; errors as for `Finder`."""
        attempts = {
            address: self._begin(_open_master(self._connector.at(*address), limit))
            for address in self._addresses
        }
        chosen: Attempt | None = None
        try:
            await _until_clear(attempts.values(), limit)
            masters = {a: c for a, each in attempts.items() if (c := opened(each)) is not None}
            if len(masters) != 1:
                raise self._no_master(attempts, list(masters))
            ((master, connection),) = masters.items()
            await abandon([each for address, each in attempts.items() if address != master])
            chosen = attempts[master]
        finally:
            if chosen is None:
                await abandon(attempts.values())
        self._reached(master, f"the master is now {write_address(*master)}")
        return connection

    def _no_master(self, attempts: dict[Address, Attempt], masters: list[Address]) -> BackendError:
        if masters:
            several = " and ".join(write_address(*each) for each in masters)
            text = f"{several} claim to be master: waiting until all but one are demoted"
            return ConnectionLostError(text, maybe_held=False)
        failures = [_failure(address, attempt) for address, attempt in attempts.items()]
        return not_found("no master found", failures)


async def _open_master(connector: Connector, limit: float) -> AbstractConnection | None:
    """Return a connection to this server; None if it is no master.

    Raises:
        BackendError: It could not be opened.
    """
    end = loop_time() + limit
    connection = await connector.open(limit)
    try:
        async with time_limit(end - loop_time()):
            # redis-py sends HELLO too, but keeps the answer to itself.
            await connection.send_command("HELLO")
            facts = await connection.read_response()
    except BaseException as error:
        await connection.disconnect(nowait=True)
        if not isinstance(error, Exception):
            raise
        why = str(error) or "no answer to HELLO"
    else:
        if is_master(facts):
            return connection
        await connection.disconnect(nowait=True)
        return None
    text = f"no connection to Redis at {connector.where}: {why}"
    raise ConnectionLostError(text, maybe_held=False)


async def _until_clear(attempts: Collection[Attempt], limit: float) -> None:
    """Wait until all have ended; once a master is found, not long for silent servers."""
    present = loop_time()
    end, soon = present + limit, present + min(limit, ASK_SECONDS)
    while waiting := [attempt for attempt in attempts if not attempt.done()]:
        found = any(opened(attempt) is not None for attempt in attempts)
        left = (soon if found else end) - loop_time()
        if left <= 0:
            break
        await wait_for_all(waiting, left, first=True)


def _failure(address: Address, attempt: Attempt) -> Failure:
    """Return why there is no connection to a master here."""
    where = write_address(*address)
    if not attempt.done() or attempt.cancelled():
        return Failure(f"Redis at {where} is silent", final=False)
    error = attempt.exception()
    if error is None:
        return Failure(f"Redis at {where} is a replica", final=False)
    final = isinstance(error, BackendError) and not isinstance(error, ConnectionLostError)
    return Failure(str(error), final, error)
