"""Servers that did not answer in time: they are not asked until they answer a PING."""

from __future__ import annotations

import weakref
from collections.abc import Collection
from contextlib import suppress

from redisson_py._loop import Future
from redisson_py._stream.stream import Stream
from redisson_py.errors import ClientClosedError

_probes: weakref.WeakKeyDictionary[Stream, Future[object]] = weakref.WeakKeyDictionary()


def probe(stream: Stream) -> None:
    """Send a PING to a server that did not answer in time, unless one is on its way."""
    if not is_unresponsive(stream):
        with suppress(ClientClosedError):
            _probes[stream] = stream.ping().future


def is_unresponsive(stream: Stream) -> bool:
    """Return whether a probe PING is still unanswered, on the connection it was sent on."""
    sent = _probes.get(stream)
    return sent is not None and not sent.done()


def unresponsive(streams: Collection[Stream]) -> Collection[Stream]:
    """Return the streams with an unanswered probe PING."""
    return [stream for stream in streams if is_unresponsive(stream)] if _probes else ()
