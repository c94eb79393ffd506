"""Where the calls to a cluster wait until it is known which node serves them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from redisson_py._addresses import Address, write_address
from redisson_py._stream.topology import Elsewhere

if TYPE_CHECKING:
    from redisson_py._redis import AbstractConnection


class Lobby:
    """Opens nothing: it waits until it is known which nodes serve its stream's calls.

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
        """Wait; see `ClusterRouter`. Never returns a connection; errors as for `Opener`."""
        await self._wait(limit)
        raise Elsewhere
