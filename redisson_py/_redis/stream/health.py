"""Notices a dead connection of which the system reports nothing (half-open TCP)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisson_py._loop import Timer, call_later

if TYPE_CHECKING:
    from redisson_py._redis.stream.stream import Stream

#: Ticks in one `reply_timeout`.
_TICKS_A_TIMEOUT = 4

#: Seconds without a call, a hold or a seat after which a connection is closed, where there are
#: several servers.
_IDLE_SECONDS = 60.0


class Health:
    """Counts ticks of silence and gives up a silent connection.

    It counts ticks, not seconds, so that a blocked event loop does not mistake its own silence for
    the server's: the loop has run between two ticks.
    """

    def __init__(self, stream: Stream, reply_timeout: float) -> None:
        self.reply_timeout = reply_timeout
        self._stream = stream
        self._silent = 0
        self._idle = 0
        #: Nobody relied on the connection when something was last sent. Finding that out means
        #: looking at each hold, and whoever begins to rely on the connection sends something first.
        self._unneeded = False
        self._sent = 0
        self._seen = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Watch the connection that was just opened."""
        self._silent = self._idle = 0
        self._unneeded = False
        self._timer = call_later(self.reply_timeout / _TICKS_A_TIMEOUT, self._tick)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        stream = self._stream
        heard = stream.traffic.received != self._seen
        self._seen = stream.traffic.received
        waiting = stream.waiting
        self._silent = self._silent + 1 if waiting and not heard else 0
        self._idle = 0 if heard else self._idle + 1
        sent = stream.whole_traffic.commands
        self._unneeded = self._unneeded and sent == self._sent
        self._sent = sent
        if self._silent == _TICKS_A_TIMEOUT // 2:
            stream.mistrust()
        if self._silent >= _TICKS_A_TIMEOUT:
            stream.abort(f"no answer for {self.reply_timeout:.1f} s")
            return
        if not waiting and self._idle >= _TICKS_A_TIMEOUT:
            closes = (
                self._idle * self.reply_timeout >= _TICKS_A_TIMEOUT * _IDLE_SECONDS
                and stream.may_close_idle
            )
            if closes or not self._unneeded:
                self._unneeded = not stream.needed
            if not self._unneeded:
                self._idle = 0
                stream.ping()
            elif closes:
                stream.close_idle()
                return
        self._timer = call_later(self.reply_timeout / _TICKS_A_TIMEOUT, self._tick)
