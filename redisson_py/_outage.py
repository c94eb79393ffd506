"""Outages: reported once when one begins and once when it is over, whatever fails in between."""

from __future__ import annotations

import logging

from redisson_py._listener import ConnectionLostEvent, ConnectionRestoredEvent, Teller
from redisson_py._statistics import Counts
from redisson_py._time import now
from redisson_py.errors import BackendError

log = logging.getLogger("redisson_py")


class Outages:
    """An outage lasts from the loss of the connection until one is ready.

    A connection that cannot be opened at first need counts as lost.

    Args:
        where: The address of the server.
        counts: Where to count the outages that are over.
        teller: Informs a listener, if there is one.
        server: What kind of server is there.
    """

    def __init__(
        self,
        where: str,
        counts: Counts | None = None,
        teller: Teller | None = None,
        *,
        server: str = "Redis",
    ) -> None:
        self._where = where
        self._server = server
        self._counts = counts or Counts()
        self._teller = teller
        self._since: float | None = None
        self._refused = False

    def broke(self, why: str) -> None:
        """The connection broke."""
        if self._began(why):
            log.warning("connection to %s at %s lost: %s", self._server, self._where, why)
        else:
            log.debug("connection to %s at %s lost again: %s", self._server, self._where, why)

    def serves_nothing(self, why: str) -> None:
        """The server answers, but serves nobody for now."""
        level = logging.WARNING if self._began(why) else logging.DEBUG
        log.log(level, "%s at %s cannot serve calls for now: %s", self._server, self._where, why)

    def failed(self, error: BackendError) -> None:
        """An attempt to connect failed; the next one may succeed."""
        why = str(error).removeprefix(f"no connection to Redis at {self._where}: ")
        level = logging.WARNING if self._began(why) else logging.DEBUG
        log.log(level, "no connection to %s at %s: %s", self._server, self._where, why)

    def refused(self, error: BackendError) -> None:
        """An attempt to connect failed, and so will others until somebody changes something."""
        self._began(str(error))
        log.log(logging.DEBUG if self._refused else logging.ERROR, "%s", error)
        self._refused = True

    def ended(self, served_elsewhere: bool = False) -> None:
        """A connection is ready, or none is needed any more."""
        since, self._since, self._refused = self._since, None, False
        if since is None:
            return
        away = now() - since
        self._counts.reconnects += 1
        text = (
            "another server took over from %s at %s after %.3f s"
            if served_elsewhere
            else "connected to %s at %s after an outage of %.3f s"
        )
        log.info(text, self._server, self._where, away)
        if self._teller is not None:
            self._teller.tell("connection_restored", ConnectionRestoredEvent(self._where, away))

    def _began(self, why: str) -> bool:
        """Return whether an outage begins with this."""
        if self._since is not None:
            return False
        self._since = now()
        if self._teller is not None:
            self._teller.tell("connection_lost", ConnectionLostEvent(self._where, why))
        return True
