"""Redis' bell: subscribes to the channels that somebody waits on, on the streams of their keys.

A channel is subscribed on the stream that the router names for it: the one to the master of its
slot, which also carries the requests of those that wait. So SUBSCRIBE comes before the requests,
which is all that a bell promises. No task has to wait for the server's confirmation; an event set
by the first confirmation is wrong as soon as a channel is left and joined again before the answers
came (wrong in 228 of 300 random schedules). A server that is busy, or does not allow it yet, may
refuse SUBSCRIBE and serve the request behind it: SUBSCRIBE is sent again, and those that wait ask
again behind it.

When the map changes, the router calls `moved` in the same iteration of the event loop, before it
sends any call to the new stream: the channel is unsubscribed on the old stream and subscribed on
the new one. Each stream keeps its order, so this is correct however often a slot moves, whether or
not anybody waits. A stream without a connection sends neither command: its next connection
subscribes to what is needed then, and the old subscriptions ended with the old connection.

Invariant: a channel has an entry here exactly while it has one in the table of waiters, and is
subscribed only on the stream that the entry names.
"""

from __future__ import annotations

from collections.abc import Callable

from redisson_py._answers import CALLED
from redisson_py._engine.wakeups import Table
from redisson_py._engine.watchdog import Watchdog
from redisson_py._redis.stream.call import Call
from redisson_py._redis.stream.router import Router
from redisson_py._redis.stream.stream import Stream

#: The prefixes of channels not about grants: of latches, barriers, rate limiters, and observers.
_NO_GRANTS = (
    b"redisson_countdownlatch__",
    b"redisson_py_barrier",
    b"redisson_py_rate",
    b"redisson_py_election",
)


class _Subscription:
    """One channel that somebody waits on.

    Attributes:
        stream: Where it was subscribed last; None: the server has ended that.
        last: The last SUBSCRIBE that was sent.
    """

    __slots__ = ("last", "stream")

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.last: Call | None = None


class Subscriptions:
    """What relies on the servers of its keys: the channels of those that wait, and the holds.

    Args:
        table: Those that wait.
    """

    _router: Router
    _watchdog: Watchdog

    def __init__(self, table: Table) -> None:
        self._table = table
        self._channels: dict[bytes, _Subscription] = {}

    def attach(self, router: Router, watchdog: Watchdog) -> None:
        """Set where to subscribe, and the watchdog of the holds."""
        self._router, self._watchdog = router, watchdog

    def reset(self) -> None:
        """Forget all subscriptions: nobody waits, and the connections are gone."""
        self._channels.clear()

    # What the engine asks: see `Bell`.

    def listen(self, channel: bytes) -> None:
        """Subscribe to a channel."""
        subscription = self._channels[channel] = _Subscription()
        self._subscribe(channel, subscription)

    def stop(self, channel: bytes) -> None:
        """End the subscription to a channel."""
        stream = self._channels.pop(channel).stream
        if stream is not None:
            stream.unsubscribe(channel)

    def _stream_for(self, channel: bytes) -> Stream:
        """Return the stream that carries the requests of those that wait on a channel."""
        main = self._router.stream_for(channel)
        return main if channel.startswith(_NO_GRANTS) else main.grants

    def _subscribe(self, channel: bytes, subscription: _Subscription) -> None:
        stream, before = self._stream_for(channel), subscription.stream
        if before is not None and before is not stream:
            before.unsubscribe(channel)
        subscription.stream = stream
        # None was sent if there is no connection, or if another one still has the last.
        subscription.last = stream.subscribe(channel) or subscription.last

    # What servers and streams report.

    def message(self, channel: bytes, payload: bytes) -> None:
        """Pass a message on, if it is one: anybody may publish anything."""
        try:
            value = int(payload)
        except ValueError:
            return
        if len(payload) > 1 and payload.startswith(b"0"):
            # The zero before the number is for us: of the clients that wait some were called.
            value = CALLED
        self._table.rang(channel, value)

    def moved(self, concerns: Callable[[bytes], bool]) -> None:
        """Subscribe on the present streams, have those that wait ask, and check holds.

        Args:
            concerns: Selects the channels and keys: those of slots with another master.
        """
        self._resubscribe(lambda channel, _: concerns(channel))
        self._watchdog.ask_now(concerns)

    def connected(self, stream: Stream) -> None:
        """Do the same for the channels of a stream that has connected, and its server's holds."""
        self._resubscribe(lambda channel, _: self._stream_for(channel) is stream)
        self._watchdog.ask_now(self._served_by(stream))

    def recover(self) -> None:
        """Subscribe again to channels whose subscription a server ended."""
        self._resubscribe(lambda _, subscription: subscription.stream is None)

    def _resubscribe(self, concerns: Callable[[bytes, _Subscription], bool]) -> None:
        for channel, subscription in list(self._channels.items()):
            if concerns(channel, subscription):
                # Waiters ask in the next iteration of the event loop, so SUBSCRIBE still comes
                # first, in the same write as their requests.
                self._table.missed(channel)
                self._subscribe(channel, subscription)

    def cut_off(self, stream: Stream) -> None:
        """Have those that wait for keys of a server ask: a connection to it is down."""
        for channel in list(filter(self._served_by(stream), self._channels)):
            self._table.missed(channel)

    def gone(self, stream: Stream, channel: bytes, refused: Call | None = None) -> bool:
        """Note that a server ended or refused a subscription; return whether it is still needed.

        If so, the router finds the slot's present node and calls `recover`.

        Args:
            stream: The stream to that server.
            channel: The channel.
            refused: The command that the server refused; None if it ended the subscription.
        """
        subscription = self._channels.get(channel)
        if subscription is None or subscription.stream is not stream:
            # It is already subscribed on another stream.
            return False
        last = subscription.last
        if last is not None and (last is not refused if refused else not last.is_settled):
            # Late news of an earlier subscription: the slot left and came back.
            return False
        subscription.stream = None
        needed = self._table.ended(channel)
        if not needed:
            del self._channels[channel]
        return needed

    def put_off(self, stream: Stream, call: Call) -> bool:
        """Return whether a SUBSCRIBE or UNSUBSCRIBE that a server refused still applies."""
        assert call.channel is not None
        subscription = self._channels.get(call.channel)
        if subscription is None or subscription.stream is not stream:
            return not call.subscribes
        if call.subscribes and subscription.last is not call:
            return False
        if call.subscribes:
            # Requests behind the refused SUBSCRIBE may have been answered: as in `moved`.
            self._table.missed(call.channel)
        return call.subscribes

    def is_known(self, channel: bytes, refusal: str) -> bool:
        """Return whether a waiter's own channel beside this one was refused for the same reason."""
        own = channel + b":"
        return any(
            last.why_not == refusal
            for each, subscription in self._channels.items()
            if each.startswith(own) and (last := subscription.last) is not None
        )

    # Who relies on the connections.

    def rely_on(self, stream: Stream) -> bool:
        """Return whether tasks hold or wait for keys that the server of a stream has."""
        serves = self._served_by(stream)
        return any(serves(hold.ownership.commands.key) for hold in self._watchdog.holds) or any(
            map(serves, self._channels)
        )

    def _served_by(self, stream: Stream) -> Callable[[bytes], bool]:
        """Return the test for the keys that the server of a stream has."""
        return lambda key: self._router.stream_for(key) is stream.main

    @property
    def any(self) -> bool:
        """Whether tasks hold or wait for anything."""
        return bool(self._watchdog.holds) or self._table.seats > 0
