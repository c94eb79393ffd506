"""Where the calls of a cluster's client wait until it is known where they belong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from redisson_py._addresses import Address, write_address
from redisson_py._stream.topology import Elsewhere

if TYPE_CHECKING:
    from redisson_py._redis import AbstractConnection


class Lobby:
    """Opens nothing: waits until it is known where its stream's calls belong.

    Args:
        seeds: The addresses that the user knows.
        connect_timeout: Seconds that one attempt may take, if the user said so.
        wait: Waits for the map.
    """

    def __init__(
        self,
        seeds: Collection[Address],
        connect_timeout: float | None,
        wait: Callable[[float], Awaitable[None]],
    ) -> None:
        self.where = ",".join(write_address(*address) for address in seeds)
        self.connect_timeout = connect_timeout
        self._wait = wait

    async def open(self, limit: float) -> AbstractConnection:
        """Wait; see `ClusterRouter`. Errors as for `Opener`, and never a connection."""
        await self._wait(limit)
        raise Elsewhere
