"""Servers that did not answer in time, which nobody waits for until they give a sign of life."""

from __future__ import annotations

import weakref
from contextlib import suppress

from redisson_py._loop import Future
from redisson_py._stream.stream import Stream
from redisson_py.errors import ClientClosedError

_probes: weakref.WeakKeyDictionary[Stream, Future[object]] = weakref.WeakKeyDictionary()


def doubt(stream: Stream) -> None:
    """Somebody waited for this server in vain: ask it for a sign of life."""
    if not is_silent(stream):
        with suppress(ClientClosedError):
            _probes[stream] = stream.ping().future


def is_silent(stream: Stream) -> bool:
    """Whether a sign of life is still missing, on the connection on which it was asked for."""
    probe = _probes.get(stream) if _probes else None
    return probe is not None and not probe.done()
