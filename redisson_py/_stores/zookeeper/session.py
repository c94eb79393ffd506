"""One session with ZooKeeper, in the hands of kazoo.

kazoo connects, pings and connects again in a thread of its own; here its thread meets the loop. An
object is one session and no more. kazoo would begin another one when a session has
expired; this object has ended then, and another takes its place. So no request that was meant for
one session is carried out in the next.

Requests go to kazoo's queue as they are (`KazooClient._call`), for two reasons: its methods have no
container nodes, and their answers take up to three turns through its threads. Three methods of its
`ConnectionHandler` are used beside that: `_connect` alone knows which session timeout was granted,
`_expand_client_hosts` that no host was found, and `_send_ping` would ping.

kazoo tells each server the last transaction that it has seen, and one that is behind refuses it. We
do not rely on that: each call sends a `sync` before it reads.

How long the ensemble keeps a session is not what a client would think. A request is a sign of life
for the server that got it. The leader, which ends sessions, hears of it later: each half of a tick
it asks the others which sessions were alive. If a server is cut off together with its client before
that, the session ends as if the request had never been. So a sign of life counts only if something
went through the leader, by the same connection, at least half a tick after it was answered. A tick
is no longer than half of the shortest session timeout, unless the server's `minSessionTimeout` is
less than its default. A connection counts at once: the leader itself confirms the session then.

The session beats, so that a sign of life is never much older than that half of a tick. kazoo would
ping too, but does not tell, and not while there are requests: a dead connection that is written to
would go unnoticed. So it is the beat without an answer that ends a connection.

The beats come from the event loop, and nothing else keeps the session alive: while the loop is
blocked, kazoo's thread neither pings nor connects. After a lease without a sign of life of the loop
all that it held is over, and that thread ends the session. After a shorter block the signs of life
are old, and a new connection replaces them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Final, final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.connection import _CONNECTION_DROP
from kazoo.protocol.serialization import Exists
from kazoo.protocol.states import EventType, KazooState, WatchedEvent
from kazoo.retry import KazooRetry

from redisson_py._forks import first_tls
from redisson_py._stores.last_failure import LastFailure
from redisson_py._time import now

from .url import Target

#: Calls raise what goes wrong; only what kazoo cannot explain is worth a line.
_LOG: Final = logging.getLogger("redisson_py.kazoo")
_LOG.setLevel(logging.ERROR)
#: Parts of the session timeout: between two beats, after which a beat is missed, and until the
#: leader has heard of a sign of life.
_BEAT_SHARE: Final = 1 / 12
_MISSED_SHARE: Final = 1 / 4
_HEARD_SHARE: Final = 1 / 4
#: Part of the session timeout: nothing is granted or renewed by a sign of life that is older.
_OLD_SHARE: Final = 1 / 2
#: Signs of life that are nearer to each other are one.
_GRAIN_SHARE: Final = 1 / 100
#: Seconds to wait for kazoo's threads where nothing can be awaited; they end after that.
_PARTING_SECONDS: Final = 0.5
#: Seconds between two looks whether an event loop that is blocked must be waited for.
_GLANCE_SECONDS: Final = 0.05
#: Seconds for one attempt to connect: for the connection, and for the answer of the server.
_LONGEST_ATTEMPT = 5.0


def _connected_soon(connect: Callable[..., Any], *where: object, timeout: float, **how: Any) -> Any:
    """Connect, within the time of one attempt."""
    return connect(*where, timeout=min(timeout, _LONGEST_ATTEMPT), **how)


@final
class Session:
    """A session that begins, is connected now and then, and ends.

    Attributes are for the loop's thread only.

    Attributes:
        timeout: The seconds without a sign of life after which the ensemble ends it.
        connected: Whether it is connected, as far as we know.
        connections: How many times it was connected.
        ended: Whether it is over, for good.
        error: Why it could not be connected, the last time that it could not.
    """

    def __init__(
        self,
        target: Target,
        timeout: float,
        lease: float,
        last_failure: LastFailure,
        changed: Callable[[Session], None],
    ) -> None:
        """Prepare a session.

        Args:
            target: Where to.
            timeout: The session timeout to ask for.
            lease: The seconds for which it outlives an event loop that is blocked; not longer than
                its timeout.
            last_failure: Where to note why it could not be connected.
            changed: Called in the loop's thread when it is connected, or not any more, or over.
        """
        self.timeout = timeout
        self.connected = False
        self.connections = 0
        self.ended = False
        self.error: Exception | None = None
        self._last_failure: Final = last_failure
        self._changed: Final = changed
        self._hosts: Final = len(target.hosts.split(","))
        #: The attempts to connect that failed one after the other.
        self._failures = 0
        self._lease: Final = lease
        #: When the event loop gave its last sign of life.
        self._alive = now()
        #: When signs of life were written and answered, on this connection, the oldest first.
        self._signs: Final[deque[tuple[float, float]]] = deque()
        self._beating: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop: Final = asyncio.get_running_loop()
        # kazoo's threads have context variables of their own.
        self._context: Final = copy_context()
        self._uses_tls: Final = target.tls is not None
        tls: dict[str, Any] = (
            {} if target.tls is None else {"use_ssl": True, "check_hostname": True, **target.tls}
        )
        self._client: Final[Any] = KazooClient(
            target.hosts,
            timeout=timeout,
            auth_data=[] if target.digest is None else [("digest", target.digest)],
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
            logger=_LOG,
            **tls,
        )
        self._client.add_listener(self._listen)
        self._connection: Final[Any] = self._client._connection
        self._connect: Final[Callable[..., tuple[float, float]]] = self._connection._connect
        self._connection._connect = self._observed_connect
        self._connection._send_ping = self._wait_for_loop
        self._expand: Final[Callable[[], list[object]]] = self._connection._expand_client_hosts
        self._connection._expand_client_hosts = self._observed_hosts
        self._closing: Final = threading.Event()
        #: When the connection was lost, if there is none. For kazoo's thread only.
        self._down_since: float | None = None
        # kazoo would wait for as long as a session lasts, for a server that accepts and is silent.
        self._trying: float | None = None
        handler = self._client.handler
        handler.create_connection = partial(_connected_soon, handler.create_connection)

    def begin(self) -> None:
        """Start kazoo's threads, which connect."""
        try:
            self._client.start_async()
        except BaseException:
            self._client.handler.stop()
            raise
        self._beat()

    def send(self, request: object) -> asyncio.Future[object]:
        """Send a request; the result is the reply, or the error with which it was answered."""
        self._alive = now()
        future: asyncio.Future[object] = self._loop.create_future()
        self._client._call(request, _Answer(self._loop, future))
        return future

    def answered(self, written: float) -> None:
        """Hear that a request was answered, which was written then, or later."""
        if not self._signs or written > self._signs[-1][0] + self.timeout * _GRAIN_SHARE:
            self._signs.append((written, now()))

    def kept_until(self, written: float) -> float:
        """Return until when the ensemble keeps the session at least.

        Args:
            written: The moment before a request was written that went through the leader, and was
                answered on this connection.
        """
        heard = written - self.timeout * _HEARD_SHARE
        while len(self._signs) > 1 and self._signs[1][1] <= heard:
            self._signs.popleft()
        # The first is from when the connection was made.
        return min(self._signs[0][0] + self.timeout, written + self._lease)

    @property
    def is_old(self) -> bool:
        """Whether the last sign of life that the leader has heard of is too old to go by."""
        return now() - self._signs[0][0] > self.timeout * _OLD_SHARE

    def connect_anew(self) -> None:
        """Replace the connection: a new one is a sign of life that counts at once."""
        if self.connected:
            self.send(_CONNECTION_DROP)
            self._went_down()

    def watcher(self, ring: Callable[[], None]) -> Callable[[WatchedEvent], None]:
        """Return a watch for requests that calls `ring` in the loop's thread."""

        def watch(event: WatchedEvent) -> None:
            # A watch that ends with its connection says so; `changed` tells of the next one.
            if event.type != EventType.NONE:
                self._post(ring)

        return watch

    def close(self) -> asyncio.Future[None]:
        """End the session, at the server too if it answers; the future is done after that."""
        closed: asyncio.Future[None] = self._loop.create_future()
        self._start_closing(closed)
        self._end()
        return closed

    def leave_behind(self) -> None:
        """End the session; wait for its threads, but not for long."""
        self._end()
        self._start_closing(None).join(_PARTING_SECONDS)

    def _start_closing(self, closed: asyncio.Future[None] | None) -> threading.Thread:
        thread = threading.Thread(target=self._close, args=(closed,), daemon=True)
        thread.start()
        return thread

    def _close(self, closed: asyncio.Future[None] | None) -> None:
        self._closing.set()
        # It raises if its thread hangs in a system call: then there is nothing to free yet.
        with contextlib.suppress(Exception):
            self._client.stop()
            self._client.close()
        if closed is not None:
            self._post(_settle, closed, None)

    def _wait_for_loop(self, *_: object) -> bool:
        """Wait for a sign of life of the event loop, in kazoo's thread; return whether it came.

        If there was none for a lease, the session ends.
        """
        lives = threading.Event()
        self._post(lives.set)
        while not lives.wait(_GLANCE_SECONDS):
            if self._closing.is_set():
                return False
            if now() - self._alive > self._lease:
                self._start_closing(None)
                return False
        return True

    def _observed_connect(self, *where: object) -> tuple[float, float]:
        """Connect, in kazoo's thread."""
        if not self._wait_for_loop():
            raise ConnectionDropped("the event loop is blocked, or closed")
        began = self._trying = now()
        if self._down_since is not None and began - self._down_since > self.timeout:
            # A server refuses clients that have seen more than it has. By now nothing is held, and
            # what we have seen may be gone: the servers lost their data, or got older ones back.
            self._client.last_zxid = 0
        try:
            with first_tls(self._uses_tls):
                read_timeout, connect_timeout = self._connect(*where)
        except Exception as error:
            self._post(self._failed, error)
            raise
        finally:
            self._trying = None
        self._down_since = None
        # Two thirds of the session timeout, in milliseconds.
        timeout = round(read_timeout * 1.5) / 1000
        self._post(self._came_up, timeout, began)
        # After half of this kazoo would ping.
        return min(read_timeout, self._lease * 1000), connect_timeout

    def _observed_hosts(self) -> list[object]:
        """Look the hosts up, in kazoo's thread, which leaves out those that have no address."""
        found = self._expand()
        if not found:
            no_address = "no host in the URL has an address"
            self._post(partial(self._last_failure.note, OSError(), no_address, away=True))
        return found

    def _listen(self, state: str) -> None:
        if state == KazooState.SUSPENDED:
            self._down_since = now()
            self._post(self._went_down)
        elif state == KazooState.LOST:
            self._post(self._end)

    def _came_up(self, timeout: float, began: float) -> None:
        if not self.ended:
            self.timeout = timeout
            self.connected = True
            self.connections += 1
            self._failures = 0
            self._signs.clear()
            self._signs.append((began, began))
            self._beating = None
            self._changed(self)

    def _beat(self) -> None:
        self._alive = now()
        self._timer = self._loop.call_later(self.timeout * _BEAT_SHARE, self._beat)
        if not self.connected:
            trying, attempt = self._trying, self._connection._socket
            if trying is not None and now() - trying > _LONGEST_ATTEMPT and attempt is not None:
                with contextlib.suppress(OSError):
                    # kazoo's thread reads the end of the connection, and makes another.
                    attempt.shutdown(socket.SHUT_RDWR)
            return
        if self._beating is None:
            self._beating = now()
            beat = self.send(Exists("/", None))
            beat.add_done_callback(partial(self._beaten, self._beating))
        elif now() - self._beating > self.timeout * _MISSED_SHARE:
            self.connect_anew()

    def _beaten(self, written: float, beat: asyncio.Future[object]) -> None:
        if self._beating == written:
            self._beating = None
            if not isinstance(beat.result(), Exception):
                self.answered(written)

    def _went_down(self) -> None:
        if self.connected:
            self.connected = False
            self._changed(self)

    def _failed(self, error: Exception) -> None:
        # Without the frames, whose sockets kazoo leaves to the collector if TLS has failed.
        self.error = error.with_traceback(None)
        if error.__context__ is not None:
            error.__context__.with_traceback(None)
        late = self._client.handler.timeout_exception
        why = TimeoutError() if isinstance(error, late) else error
        self._failures += 1
        # Each host is tried in its turn.
        self._last_failure.note(why, str(error), away=self._failures >= self._hosts)
        # kazoo tries again after these two. Its thread ends with any other error.
        if not isinstance(error, ConnectionDropped | late):
            self._end()

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            self.connected = False
            if self._timer is not None:
                self._timer.cancel()
            self._changed(self)

    def _post(self, call: Callable[..., object], *arguments: object) -> None:
        # The loop may be closed before kazoo's threads have ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments, context=self._context)


@final
class _Answer:
    """What kazoo takes for the place of an answer."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[object]) -> None:
        self._loop = loop
        self._future = future

    def set(self, value: object = None) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_settle, self._future, value)

    def set_exception(self, error: Exception) -> None:
        self.set(error)


def _settle(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)
