"""What `top` knows: which resources are held, since when, and how often they change hands.

Only `Watcher` does I/O. A subscription would count every release, but also change what is counted:
a releasing client learns how many listen, and yields to them before it acquires again. So nothing
is subscribed. Hand-offs are holders that are new since the look before, and the releases of a
server are its own count of PUBLISH, one for each release (INFO commandstats).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from redisson_py import ConnectionLostError, ScriptError
from redisson_py._cli.looks.asking import Asker
from redisson_py._cli.looks.found import Found
from redisson_py._cli.looks.keyspace import Names, Resource, resources
from redisson_py._cli.looks.kinds import Looker

#: Seconds over which hand-offs a second are counted.
WINDOW = 10.0
#: Seconds for which a resource is watched that is free.
_KEPT_FREE = 10.0
#: Seconds after which clients are asked again what they say of themselves.
_KNOWN_FOR = 30.0
#: Seconds before a server that did not answer is searched again.
_SEARCH_AGAIN = 1.0

_PUBLISHED = re.compile(rb"^cmdstat_s?publish:calls=(\d+)", re.MULTILINE)


@dataclass(slots=True)
class Row:
    """A resource that is watched.

    Attributes:
        found: What the latest look found.
        since: When its present holders were first seen together, in the caller's clock.
        free_since: Since when nobody holds it or waits for it; None if somebody does.
        stale: Its server did not answer the latest look.
        handoffs: When new holders were seen, and how many.
    """

    found: Found
    since: float
    free_since: float | None = None
    stale: bool = False
    handoffs: deque[tuple[float, int]] = field(default_factory=deque)

    def take(self, found: Found, present: float) -> None:
        """Take what a look found."""
        before, after = _owners(self.found), _owners(found)
        new = after - before
        if found.kind != "barrier" and new:
            self.handoffs.append((present, len(new)))
        if new or not before & after:
            self.since = present
        if not found.is_free:
            self.free_since = None
        elif self.free_since is None:
            self.free_since = present
        self.found, self.stale = found, False

    def rate(self, present: float, began: float) -> float:
        """Return the hand-offs a second that were seen in the last `WINDOW` seconds."""
        while self.handoffs and self.handoffs[0][0] < present - WINDOW:
            self.handoffs.popleft()
        seconds = min(WINDOW, present - began)
        return sum(count for _, count in self.handoffs) / seconds if seconds > 0 else 0.0


def _owners(found: Found) -> set[str]:
    return {holder.permit or holder.owner for holder in found.holders}


@dataclass(slots=True)
class Watch:
    """All that is watched.

    Attributes:
        began: When watching began, in the caller's clock.
        limit: The most rows.
        rows: What is watched.
        left_out: There was more than that.
        searched: Every server has been searched once.
        away: What was heard last of servers that do not answer.
        releases: Releases a second on all servers between the last two looks; None if not known.
    """

    began: float
    limit: int
    rows: dict[Resource, Row] = field(default_factory=dict)
    left_out: bool = False
    searched: bool = False
    away: dict[str, str] = field(default_factory=dict)
    releases: float | None = None
    _published: dict[str, tuple[float, int]] = field(default_factory=dict)

    def take(self, resource: Resource, found: Found | None, present: float) -> None:
        """Take what a look found, None if nothing is there."""
        row = self.rows.get(resource)
        if row is None:
            if found is None or found.is_free:
                return
            if len(self.rows) >= self.limit:
                self.left_out = True
                return
            self.rows[resource] = Row(found, present)
            return
        # Gone is free: it may be acquired again before the next look.
        row.take(found or _free(row.found), present)
        if row.free_since is not None and present - row.free_since >= _KEPT_FREE:
            del self.rows[resource]

    def published(self, server: str, text: bytes, present: float) -> float | None:
        """Take a server's count of PUBLISH; return how many a second since the one before."""
        count = sum(int(each) for each in _PUBLISHED.findall(text))
        before = self._published.get(server)
        self._published[server] = (present, count)
        if before is None or count < before[1] or present <= before[0]:
            return None
        return (count - before[1]) / (present - before[0])

    def order(self) -> list[Row]:
        """Return the rows: those held longest first, and those that are free last."""
        return sorted(
            self.rows.values(),
            key=lambda row: (row.free_since is not None, row.since, row.found.name),
        )

    def document(self, present: float) -> dict[str, Any]:
        """Return this as JSON has it."""
        return {
            "searched": self.searched,
            "left_out": self.left_out,
            "away": self.away,
            "releases_per_second": None if self.releases is None else round(self.releases, 2),
            "rows": [
                {
                    **row.found.document(),
                    "seen_held_for": None
                    if row.free_since is not None
                    else round(present - row.since, 3),
                    "handoffs_per_second": round(row.rate(present, self.began), 2),
                    "stale": row.stale,
                }
                for row in self.order()
            ],
        }


def _free(found: Found) -> Found:
    return replace(
        found,
        holders=(),
        holders_total=0,
        waiters=(),
        waiters_total=None,
        keys=(),
        parties=None,
        broken=None if found.broken is None else False,
    )


class Watcher:
    """Keeps a `Watch` up to date.

    Args:
        search: Sends the commands of the search.
        look: Sends those of the looks.
        watch: What is kept up to date.
        names: What is looked for.
        clock: Returns seconds.
    """

    def __init__(
        self, search: Asker, look: Asker, watch: Watch, names: Names, clock: Callable[[], float]
    ) -> None:
        self.watch = watch
        self._search = search
        self._look = look
        self._looker = Looker(look, listed=3)
        self._found_by = Looker(search, listed=3)
        self._names = names
        self._clock = clock
        self._forget_at = clock() + _KNOWN_FOR

    async def search(self) -> None:
        """Pass over all keys of all servers once, and watch what is found.

        Raises:
            ScriptError: A command is not permitted.
        """
        watch, complete = self.watch, True
        try:
            servers = await self._search.servers()
        except ConnectionLostError:
            await anyio.sleep(_SEARCH_AGAIN)
            return
        for anchor in servers.values():
            try:
                async with aclosing(resources(self._search, anchor, self._names)) as batches:
                    async for some in batches:
                        found = await self._found_by.look(sorted(some - watch.rows.keys()))
                        for resource, each in found.items():
                            watch.take(resource, each, self._clock())
            except ConnectionLostError:
                complete = False
                await anyio.sleep(_SEARCH_AGAIN)
        self._found_by.forget()
        watch.searched = watch.searched or complete

    async def look(self) -> None:
        """Look once at everything that is watched.

        Raises:
            ScriptError: A command is not permitted.
        """
        watch = self.watch
        if self._clock() >= self._forget_at:
            self._looker.forget()
            self._forget_at = self._clock() + _KNOWN_FOR
        try:
            servers = await self._look.servers()
        except ConnectionLostError as error:
            servers = {}
            watch.away = {self._look.where: str(error)}
            for row in watch.rows.values():
                row.stale = True
        else:
            watch.away = {each: why for each, why in watch.away.items() if each in servers}
        rates: list[float | None] = []
        working: list[bytes] = []
        for server, anchor in servers.items():
            own = [each for each in watch.rows if self._look.server_of(each.key) == server]
            try:
                rates.append(await self._look_at(server, anchor, own))
                working.append(anchor)
                watch.away.pop(server, None)
            except ConnectionLostError as error:
                watch.away[server] = str(error)
                for each in own:
                    watch.rows[each].stale = True
        known = [rate for rate in rates if rate is not None]
        watch.releases = sum(known) if known else None
        await self._listen(working)

    async def _look_at(self, server: str, anchor: bytes, own: list[Resource]) -> float | None:
        """Look at what one server has; return its releases a second."""
        watch = self.watch
        try:
            said = await self._look.ask(anchor, "INFO", "commandstats")
            rate = watch.published(server, _raw(said), self._clock())
        except ScriptError:
            rate = None
        found = await self._looker.look(own)
        for resource in own:
            watch.take(resource, found.get(resource), self._clock())
        return rate

    async def _listen(self, working: list[bytes]) -> None:
        rows = [row for row in self.watch.rows.values() if not row.stale]
        found = await self._looker.listeners([row.found for row in rows], working)
        for row, each in zip(rows, found, strict=True):
            row.found = each


def _raw(said: Any) -> bytes:
    return said if isinstance(said, bytes) else bytes(str(said), "utf-8")
