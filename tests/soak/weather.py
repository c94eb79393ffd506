"""The network of a storm: loses replies by the hundred, and delivers commands late."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter, defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from redisson_py._redis.scripts import source
from redisson_py.testing import FaultProxy

#: The scripts, and what a call of each is: for one hold, and for more.
SCRIPTS = {
    "lock.acquire": ("acquire", "re-entry"),
    "fenced_lock.acquire": ("fenced acquire", "fenced re-entry"),
    "lock.release": ("final release", "partial release"),
    "lock.renew": ("renewal", "renewal"),
    "lock.set_lease": ("extend", "extend"),
    "lock.force_release": ("force_release", "force_release"),
}
CALLS = tuple(dict.fromkeys(call for pair in SCRIPTS.values() for call in pair))

#: Seconds until a connection breaks although hardly any reply was lost on it.
PATIENCE = 0.02

#: The share of breaks after which what comes again is answered; else it is lost once more.
MERCY = 0.75

#: Commands without a reply that are remembered of each key.
REMEMBERED = 6


@dataclass(frozen=True, slots=True)
class Sent:
    """A command on its way; `call` is empty if it is no call of a lock."""

    call: str
    key: bytes
    owner: bytes
    command: bytes


@dataclass
class Losses:
    """What was lost in a storm.

    Attributes:
        calls: Replies that the server gave and no client saw, by call.
        cuts: Connections broken.
        recent: The latest commands whose replies were lost, by key.
    """

    calls: Counter[str] = field(default_factory=Counter)
    cuts: int = 0
    recent: defaultdict[bytes, deque[Sent]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=REMEMBERED))
    )

    def add(self, answered: list[Sent]) -> None:
        """Note commands whose replies were lost."""
        for sent in answered:
            if sent.call:
                self.calls[sent.call] += 1
                self.recent[sent.key].append(sent)


class Weather:
    """Loses the replies to one client, then breaks its connection, again and again.

    On each connection some calls are answered, so that the world goes on. From the first reply
    that is lost all are: a client that missed one would take the next for it.

    Args:
        link: The proxy before which the client stands, alone.
        chance: Decides.
        crowd: The most replies that are waited for before a connection breaks.
        losses: Where to note what was lost.
    """

    def __init__(self, link: FaultProxy, chance: random.Random, crowd: int, losses: Losses) -> None:
        self._link = link
        self._chance = chance
        self._crowd = crowd
        self._losses = losses
        self._scripts = {
            wording.sha.encode(): calls
            for name, calls in SCRIPTS.items()
            for wording in source.load(name).wordings
        }
        self._at_risk: list[Sent] = []  # on this connection and not to be answered, in order
        self._spared = 0  # how many calls are still answered
        self._discarded = 0  # replies, before this connection
        self._accepted = 0  # connections, likewise
        self._calm = False
        link.swallow_reply(self._loses, times=sys.maxsize)

    async def blow(self) -> None:
        """Break the connection whenever enough replies were lost on it; until cancelled."""
        while True:
            await self._link.wait_until(lambda link: bool(self._at_risk))
            enough = self._discarded + self._chance.randint(1 + self._crowd // 3, self._crowd)
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._link.wait_until(partial(_has_lost, enough))
            self._cut()

    def end(self) -> None:
        """Let everything through from now on."""
        self._cut()
        self._calm = True

    def _loses(self, command: bytes) -> bool:
        """Decide on the reply to a command that goes to the server."""
        if self._calm:
            return False
        sent = self._read(command)
        if not self._at_risk:
            if not sent.call:
                return False
            if self._spared:
                self._spared -= 1
                return False
        self._at_risk.append(sent)
        return True

    def _read(self, command: bytes) -> Sent:
        words = command.split(b"\r\n")[2::2]
        if words[0] != b"EVALSHA":
            return Sent("", b"", b"", command)
        one, more = self._scripts[words[1]]
        key, keys = words[3], int(words[2])
        if one in ("renewal", "force_release"):
            return Sent(one, key, b"", command)
        owner, number = words[3 + keys : 5 + keys]
        # set_lease has no hold count there, and one name for any number.
        more_holds = int(number) > (one != "final release")
        return Sent(more if more_holds else one, key, owner, command)

    def _cut(self) -> None:
        # The server answers in order, so the first of those at risk are those it answered.
        # Where a client gave a connection up by itself there were two orders: not counted.
        if self._link.accepted <= self._accepted + 1:
            self._losses.add(self._at_risk[: self._link.triggered - self._discarded])
        self._spared = len(self._at_risk) if self._chance.random() < MERCY else 0
        self._at_risk.clear()
        self._losses.cuts += self._link.cut()
        self._discarded = self._link.triggered
        self._accepted = self._link.accepted


def _has_lost(replies: int, link: FaultProxy) -> bool:
    return link.triggered >= replies
