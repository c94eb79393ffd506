"""A small stream to one Sentinel: asks for the master, and hears when it changes.

A demoted master may accept writes for ten more seconds, and nothing on its own connection says that
it was demoted. So we listen to each Sentinel: the first `+switch-master` ends these connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from redisson_py._addresses import Address
from redisson_py._loop import Task, Timer, call_later, discard
from redisson_py._outage import Outages
from redisson_py._redis.stream.call import Call, ReplyError
from redisson_py._redis.stream.settings import Callbacks, StreamSettings
from redisson_py._redis.stream.stream import Stream
from redisson_py._redis.topology.choice import (
    Failure,
    Named,
    read_named,
    read_sentinels,
    read_switch,
)
from redisson_py._retry import pause_before
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import Connector

#: Seconds for which a stream to a Sentinel tries to reconnect before it asks if it is still needed.
_KEEP_SECONDS = 10.0

_SWITCH = b"+switch-master"


class Question:
    """The questions to one Sentinel, and its answer when there is one.

    The commands leave together and are executed together, so the address is that of the epoch or
    of a newer one.
    """

    def __init__(self, sentinel: Sentinel, seconds: float) -> None:
        service, self._sentinel = sentinel.service, sentinel
        try:
            self._calls = [
                sentinel.stream.command(("SENTINEL", *words, service), seconds)
                for words in (("MASTER",), ("GET-MASTER-ADDR-BY-NAME",), ("SENTINELS",))
            ]
        except ClientClosedError:
            self._calls = []
        for call in self._calls:
            call.fails_fast = True
        #: Done when everything is answered, or the time is up.
        self.done: asyncio.Future[list[object]] = asyncio.gather(
            *(call.future for call in self._calls), return_exceptions=True
        )

    def answer(self) -> Named | Failure:
        """Return the master that the Sentinel names, or why it names none."""
        sentinel, where = self._sentinel, self._sentinel.where
        if not self._calls:
            return Failure(f"Sentinel at {where}: the client is closed", False)
        for reply in self.done.result():
            if isinstance(reply, BaseException):
                return self._failure(reply)
        master, address, _ = self.done.result()
        if sentinel.is_deaf(self._calls[0]):
            text = "refuses the subscription to +switch-master"
            return Failure(f"Sentinel at {where} {text}", True)
        named = read_named(master, address, where)
        return named or Failure(f"Sentinel at {where} names no address", False)

    def others(self) -> list[Address]:
        """Return the Sentinels that this one knows."""
        return read_sentinels(self.done.result()[-1]) if self._calls else []

    def _failure(self, error: BaseException) -> Failure:
        where, text = self._sentinel.where, str(error)
        if isinstance(error, ConnectionLostError) or not isinstance(error, BackendError):
            return Failure(_of_sentinel(text, where), False, error)
        if not isinstance(error, ReplyError):
            return Failure(_of_sentinel(text, where), True, error)
        if "No such master" in text:
            text = f"Sentinel at {where} does not know {self._sentinel.service!r}"
        elif "unknown command" in text.lower():
            text = f"the server at {where} is not a Sentinel"
        else:
            text = f"Sentinel at {where} refused to name the master: {text}"
        return Failure(text, True, error)


def _of_sentinel(text: str, where: str) -> str:
    changed = text.replace(f"Redis at {where}", f"Sentinel at {where}")
    return changed if where in changed else f"Sentinel at {where}: {changed}"


class Sentinel:
    """One Sentinel.

    Args:
        connector: Opens connections to it.
        service: The name under which it watches the master.
        reply_timeout: Seconds without an answer after which its connection counts as dead.
        on_switch: Called with this and the new address for each `+switch-master` of the service.
        kept: Whether the connection is to be opened again when it breaks.
        needed: Whether a silent connection is probed.
    """

    def __init__(
        self,
        connector: Connector,
        service: str,
        reply_timeout: float,
        *,
        on_switch: Callable[[Sentinel, Address], None],
        kept: Callable[[], bool],
        needed: Callable[[], bool],
    ) -> None:
        self.where = connector.where
        self.service = service
        self.task: Task | None = None
        self._on_switch = on_switch
        self._kept = kept
        self._again: Timer | None = None
        self._attempt = 0
        self._subscription: Call | None = None
        self._closed = False
        self.stream = Stream(
            StreamSettings(
                opener=connector,
                reply_timeout=reply_timeout,
                tell=Callbacks(
                    on_message=self._message,
                    on_connected=self._connected,
                    on_down=self._down,
                    needed=lambda _: needed(),
                ),
                outages=Outages(connector.where, server="Sentinel"),
            )
        )

    def __repr__(self) -> str:
        return f"<Sentinel at {self.where}>"

    def is_deaf(self, answered: Call) -> bool:
        """Whether the subscription was refused, judged when a later call was answered."""
        asked = self._subscription
        if asked is None or asked.future.done():
            return False
        return asked.written_at <= answered.written_at

    @property
    def peer(self) -> Address | None:
        """The IP address and the port it is connected to."""
        name = self.stream.peer
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None

    def start(self) -> Task:
        """Let the stream run, as a task of the running loop."""
        self.task = asyncio.create_task(self.stream.run(), name=f"redisson_py {self.where}")
        return self.task

    @property
    def has_failed(self) -> bool:
        """Whether its task ended by an error."""
        task = self.task
        return task is not None and task.done() and not (self._closed or task.cancelled())

    async def close(self, error: ClientClosedError) -> None:
        """Close the connection; open questions fail with `error`."""
        self._stop()
        await self.stream.close(error)

    def fail(self, error: ClientClosedError) -> None:
        """Refuse everything from now on, where nothing can be awaited."""
        self._stop()
        self.stream.fail(error)

    def leave_behind(self) -> None:
        """Close the socket although the event loop was closed and nothing of it runs any more."""
        self._stop()
        self.stream.leave_behind()
        task, self.task = self.task, None
        if task is not None and not task.done():
            discard(task)

    def _stop(self) -> None:
        self._closed = True
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def _connected(self, _: Stream) -> None:
        self._attempt = 0
        # A Call of our own, to see whether it is confirmed.
        self._subscription = self.stream.send(
            Call(("SUBSCRIBE", _SWITCH), 0, must=True, channel=_SWITCH)
        )

    def _message(self, channel: bytes, payload: bytes) -> None:
        address = read_switch(payload, self.service)
        if channel == _SWITCH and address is not None:
            self._on_switch(self, address)

    def _down(self, _: Stream) -> None:
        self._subscription = None
        if self._again is None and not self._closed and self._kept():
            # After a pause: the Sentinel may have refused us.
            self._again = call_later(pause_before(self._attempt), self.keep)
            self._attempt += 1

    def keep(self) -> None:
        """Have the stream connect, by sending something."""
        self._again = None
        if not self._closed and not self.stream.ready:
            ping = self.stream.command(("PING",), _KEEP_SECONDS)
            ping.future.add_done_callback(self._kept_for_a_while)

    def _kept_for_a_while(self, ping: asyncio.Future[object]) -> None:
        if not ping.cancelled() and ping.exception() is not None and not self.stream.ready:
            self._down(self.stream)
