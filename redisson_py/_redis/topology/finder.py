"""Opens connections to the one master: what all finders share, and the one that asks Sentinels.

Here a stream has a finder in place of a connector. It checks the role of the server that the finder
reaches: Sentinels name a server shortly before it is master, and an old master after it was
demoted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import TYPE_CHECKING, TypeVar

from redisson_py._addresses import Address, AddressMap, write_address
from redisson_py._loop import (
    Future,
    Task,
    discard,
    is_closed,
    loop_time,
    new_future,
    wait_for_all,
    wake,
)
from redisson_py._redis.stream.router import NewStream, SingleRouter
from redisson_py._redis.stream.stream import Stream
from redisson_py._redis.topology.choice import Named
from redisson_py._redis.topology.sentinels import ASK_SECONDS, Sentinels
from redisson_py.errors import ClientClosedError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import AbstractConnection, Connector

log = logging.getLogger("redisson_py")

_C = TypeVar("_C")
Opening = asyncio.Task["AbstractConnection"]
#: The result is None if the server is no master.
Attempt = asyncio.Task["AbstractConnection | None"]

#: Seconds after which the Sentinels are asked again while the master does not answer.
_ASK_PAUSE_SECONDS = 0.25


class Finder:
    """Opens connections to the master, wherever it is.

    Args:
        connector: The settings for the data servers.
        on_elsewhere: Called with the reason when the master is not where the last connection was
            opened: connections to the old address must be given up at once.

    Attributes:
        connect_timeout: Seconds that one attempt may take, if the user said so.
        master: Where the last connection was opened.
    """

    def __init__(self, connector: Connector, on_elsewhere: Callable[[str], None]) -> None:
        self.connect_timeout = connector.connect_timeout
        self.master: Address | None = None
        self._connector = connector
        self._on_elsewhere = on_elsewhere
        self._attempts: set[Task] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.where}>"

    @property
    def where(self) -> str:
        """The address of the master, or how it is found."""
        return self._looked_for() if self.master is None else write_address(*self.master)

    async def open(self, limit: float) -> AbstractConnection:
        """Return a connection to the master.

        Args:
            limit: Seconds that this may take.

        Raises:
            BackendError: Trying again is no use: we were refused, or no Sentinel knows the service.
            ConnectionLostError: There is no master now, or it was not reached.
        """
        raise NotImplementedError

    def count_replicas(self, then: Callable[[int | None], None]) -> None:
        """Call `then` with the number of the master's replicas, or with None if it is not known."""
        then(None)

    def start(self) -> None:
        """Start to listen for changes, in tasks of the running loop."""

    async def stop(self) -> None:
        """End these tasks."""

    async def close(self, error: ClientClosedError) -> None:
        """Close what listens for changes."""

    def fail(self, error: ClientClosedError) -> None:
        """As `close`, where nothing can be awaited."""

    def leave_behind(self) -> None:
        """Close the sockets of an event loop that was closed, and end its tasks."""
        for attempt in self._attempts:
            if attempt.done():
                # It ended in the last turn of that loop, so its callbacks never ran.
                _let_go(attempt)
            else:
                discard(attempt)

    def reset(self) -> object:
        """Begin again for another event loop; return what was there."""
        return None

    def _looked_for(self) -> str:
        raise NotImplementedError

    def _begin(self, opening: Coroutine[None, None, _C]) -> asyncio.Task[_C]:
        """Begin an attempt to connect."""
        attempt = asyncio.create_task(opening)
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)
        return attempt

    def _reached(self, address: Address, reason: str) -> None:
        """Note the master's address; if it has changed, other streams must leave the old one."""
        before, self.master = self.master, address
        if before not in (None, address):
            self._on_elsewhere(reason)


class FinderRouter(SingleRouter):
    """The stream of a client of Sentinel or of replicated servers, and the finder of its master.

    Args:
        new_stream: Makes the stream.
        new_finder: Makes what opens its connections.
    """

    def __init__(self, new_stream: NewStream, new_finder: Callable[[FinderRouter], Finder]) -> None:
        finder = self._finder = new_finder(self)
        super().__init__(lambda: new_stream(finder, fails_over=True))

    def leave_master(self, reason: str) -> None:
        """Leave a server that is not the master any more; unanswered calls go out again."""
        self.only.abort(reason)

    def hurry(self) -> None:
        """Try to connect at once: the attempt is likely to succeed now."""
        for each in self.only.pair:
            each.hurry()

    def count_replicas(self, stream: Stream, then: Callable[[int | None], None]) -> None:
        """Call `then` with the number of replicas that the Sentinels reach, or with None."""
        self._finder.count_replicas(then)

    async def run(self) -> None:
        """Run the stream, and what listens for a new master; ends by cancellation."""
        self._finder.start()
        try:
            await super().run()
        finally:
            await self._finder.stop()

    async def close(self, error: ClientClosedError) -> None:
        """Close everything; what is under way fails with `error`."""
        await super().close(error)
        await self._finder.close(error)

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; nothing can be sent any more."""
        super().fail(error)
        self._finder.fail(error)

    def leave_behind(self) -> None:
        """Close the sockets although the event loop was closed."""
        self._finder.leave_behind()
        super().leave_behind()

    def reset(self) -> object:
        """Make new streams; return the old ones."""
        return super().reset(), self._finder.reset()


class SentinelFinder(Finder):
    """Asks Sentinels.

    Args:
        connector: The settings for the data servers.
        sentinel: The settings for the Sentinels.
        seeds: Where the first Sentinels are; they name the others.
        service: The name of the master.
        reply_timeout: Seconds without an answer after which a Sentinel's connection counts as dead.
        address_map: Changes the addresses that Sentinels announce.
        on_elsewhere: As for a `Finder`.
        on_news: Called when a Sentinel has said something that makes an attempt worthwhile.
        kept: Whether streams to Sentinels are to be opened again when they break.
        needed: Whether somebody relies on them even while nothing is asked.
    """

    def __init__(
        self,
        connector: Connector,
        sentinel: Connector,
        seeds: Iterable[Address],
        service: str,
        reply_timeout: float,
        *,
        address_map: AddressMap | None = None,
        on_elsewhere: Callable[[str], None],
        on_news: Callable[[], None] = lambda: None,
        kept: Callable[[], bool] = lambda: True,
        needed: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(connector, on_elsewhere)
        self._on_news = on_news
        #: Done with the next news; then a new one is made.
        self._news: Future[None] | None = None
        self.sentinels = Sentinels(
            sentinel,
            seeds,
            service,
            reply_timeout,
            address_map=address_map,
            on_switch=self._switched,
            kept=kept,
            needed=needed,
        )

    def _looked_for(self) -> str:
        return repr(self.sentinels)

    def count_replicas(self, then: Callable[[int | None], None]) -> None:
        """Call `then` with the number of replicas that the Sentinels reach, or with None."""
        self.sentinels.count_replicas(then)

    def start(self) -> None:
        """Let the streams to the Sentinels run."""
        self.sentinels.start()

    async def stop(self) -> None:
        """End the tasks of these streams."""
        await self.sentinels.stop()

    async def close(self, error: ClientClosedError) -> None:
        """Close the streams to the Sentinels."""
        await self.sentinels.close(error)

    def fail(self, error: ClientClosedError) -> None:
        """As `close`, where nothing can be awaited."""
        self.sentinels.fail(error)

    def leave_behind(self) -> None:
        """Close the sockets of an event loop that was closed, and end its tasks."""
        super().leave_behind()
        self.sentinels.leave_behind()

    def reset(self) -> object:
        """Begin again for another event loop; return what was there."""
        self._news = None
        return self.sentinels.reset()

    async def open(self, limit: float) -> AbstractConnection:
        """Return a connection to the master that the Sentinels name; errors as for `Finder`."""
        end = loop_time() + limit
        while True:
            news = self._listen()
            named = await self.sentinels.master(end - loop_time())
            limit = end - loop_time()
            attempt = self._begin(self._connector.at(*named.address).open(limit))
            connection: AbstractConnection | None = None
            try:
                if not await self._moved_while(attempt, news, named):
                    connection = attempt.result()
            finally:
                if connection is None:
                    await abandon([attempt])
            if connection is not None:
                self._reached(named.address, _moved(named.address, named.sentinel))
                return connection
            if loop_time() >= end:
                where = write_address(*named.address)
                text = f"the master moved away from {where} while connecting"
                raise ConnectionLostError(text, maybe_held=False)

    async def _moved_while(self, attempt: Opening, news: Future[None], named: Named) -> bool:
        """Wait until a connection is open, or failed; return whether the master moved meanwhile.

        A server that was just frozen or cut off does not answer, so the Sentinels are asked again
        during the wait.
        """
        while True:
            await wait_for_all([attempt, news], _ASK_PAUSE_SECONDS, first=True)
            if attempt.done() and not news.done():
                return False
            # The answers to this question include all earlier news.
            news = self._listen()
            try:
                now = await self.sentinels.master(ASK_SECONDS)
            except ConnectionLostError:
                continue
            if now.address != named.address:
                return True

    def _listen(self) -> Future[None]:
        """Return a future that is done with the next news."""
        if self._news is None or self._news.done():
            self._news = new_future()
        return self._news

    def _switched(self, address: Address, sentinel: str) -> None:
        reason = _moved(address, sentinel)
        log.info("%s", reason)
        wake(self._news)
        if self.master not in (None, address):
            self._on_elsewhere(reason)
        self._on_news()


def opened(attempt: Attempt | Opening) -> AbstractConnection | None:
    """Return what an attempt has opened; None if it goes on, failed, or found a replica."""
    if not attempt.done() or attempt.cancelled() or attempt.exception() is not None:
        return None
    return attempt.result()


async def abandon(attempts: Collection[Attempt | Opening]) -> None:
    """End attempts to connect, and close what they have opened."""
    # `leave_behind` ends those of a closed event loop.
    attempts = [attempt for attempt in attempts if not is_closed(attempt.get_loop())]
    for attempt in attempts:
        attempt.cancel()
        # Also if the task that waits here is cancelled.
        attempt.add_done_callback(_let_go)
    await wait_for_all(attempts)


def _let_go(attempt: Attempt | Opening) -> None:
    connection = opened(attempt)
    if connection is not None:
        from redisson_py._redis.redis_py import let_go

        let_go(connection)


def _moved(address: Address, sentinel: str) -> str:
    return f"the master is now {write_address(*address)}, according to Sentinel at {sentinel}"
