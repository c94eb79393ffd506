"""Pub/sub: sessions and the channels that they listen to."""

from __future__ import annotations

from typing import Protocol


class Subscriber(Protocol):
    """What hears messages."""

    def hear(self, kind: bytes, channel: bytes, message: bytes) -> None:
        """Take a message; `kind` is `message` or `smessage`."""


class Channels:
    """The subscribers of each channel, in the order in which they came.

    A real server tells them in an order that nobody can know.
    """

    def __init__(self) -> None:
        # A dict keeps the order of its keys; a set of objects has none that two runs share.
        self._plain: dict[bytes, dict[Subscriber, None]] = {}
        self._sharded: dict[bytes, dict[Subscriber, None]] = {}

    def publish(self, channel: bytes, message: bytes) -> int:
        """Tell the subscribers of a channel; return how many they are."""
        return self._tell(self._plain, b"message", channel, message)

    def publish_sharded(self, channel: bytes, message: bytes) -> int:
        """Tell those of a sharded channel."""
        return self._tell(self._sharded, b"smessage", channel, message)

    @staticmethod
    def _tell(
        channels: dict[bytes, dict[Subscriber, None]], kind: bytes, channel: bytes, message: bytes
    ) -> int:
        subscribers = [*channels.get(channel, ())]
        for subscriber in subscribers:
            subscriber.hear(kind, channel, message)
        return len(subscribers)

    def add(self, channel: bytes, subscriber: Subscriber, *, sharded: bool) -> None:
        """Subscribe to a channel."""
        self._of(sharded).setdefault(channel, {})[subscriber] = None

    def remove(self, channel: bytes, subscriber: Subscriber, *, sharded: bool) -> None:
        """Unsubscribe from a channel, if subscribed."""
        channels = self._of(sharded)
        if channel in channels:
            channels[channel].pop(subscriber, None)
            if not channels[channel]:
                del channels[channel]

    def count(self, channel: bytes, *, sharded: bool) -> int:
        """Return how many subscribers a channel has."""
        return len(self._of(sharded).get(channel, ()))

    def names(self, *, sharded: bool) -> list[bytes]:
        """Return the channels that have subscribers."""
        return [*self._of(sharded)]

    def _of(self, sharded: bool) -> dict[bytes, dict[Subscriber, None]]:
        return self._sharded if sharded else self._plain
