"""Trouble on the way between workers and servers: what a proxy does to connections and replies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from redisson_py.testing import EmbeddedServer, FaultProxy
from redisson_py.testing._asking import packed
from redisson_py.testing._link import Faults
from tests.jepsen.field import PASSWORD, USER, Field, Link
from tests.jepsen.nemeses.nemesis import Nemesis

#: More commands than a nemesis can meet.
_ALWAYS = 1 << 40
#: How likely a reply is lost, and how likely a connection is cut after a command was executed.
_SWALLOWED, _CUT = 0.05, 0.02
_SCRIPT = b"EVALSHA"

#: Begins a fault; with random choices, and the seconds of a lease.
Fault = Callable[[random.Random, float, FaultProxy], None]


def _lasting(
    name: str,
    about: str,
    fault: Fault,
    leases: tuple[float, float] = (0.1, 3),
    *,
    loses: bool = False,
) -> Nemesis:
    """Return a nemesis that spoils one link, or all of one server, for some leases.

    Args:
        name: Its name.
        about: What it does.
        fault: Begins it.
        leases: How many leases it lasts: at least, at most.
        loses: It loses bytes. No connection may go on after that: TCP would have sent them again,
            and without them a client takes the reply to one command for that to another.
    """

    async def strike(field: Field, chance: random.Random) -> None:
        links, whom = _choose(field, chance)
        with field.struck(name, whom) as result:
            spoilt = -sum(link.proxy.triggered for link in links)
            for link in links:
                link.begin(name, partial(fault, chance, field.lease_time))
            try:
                await asyncio.sleep(chance.uniform(*leases) * field.lease_time)
            finally:
                result["n"] = spoilt + sum(link.proxy.triggered for link in links)
                for link in links:
                    if loses:
                        link.proxy.cut()
                    link.end(name)

    return Nemesis(name, about, strike, needs=frozenset({"links"}))


def _choose(field: Field, chance: random.Random) -> tuple[list[Link], str]:
    link = chance.choice(field.links)
    if chance.random() < 0.5:
        return [link], f"{link.worker} {link.server.address}"
    every = [each for each in field.links if each.server is link.server]
    return every, link.server.address


async def _cut(field: Field, chance: random.Random) -> None:
    links, whom = _choose(field, chance)
    with field.struck("cut", whom) as result:
        result["n"] = sum(link.proxy.cut() for link in links)


async def _half_open(field: Field, chance: random.Random) -> None:
    """Have open connections fall silent for ever; the network does not say that they are dead."""
    links, whom = _choose(field, chance)
    with field.struck("half-open", whom) as result:
        silent = [each for link in links for each in link.proxy._links]
        result["n"] = len(silent)
        for each in silent:
            vars(each)["_faults"] = Faults(frozenset({"down"}), holding=True)
        try:
            await asyncio.sleep(chance.uniform(0.2, 3) * field.lease_time)
        finally:
            for each in silent:
                # What the client sent comes late, the end of the connection too; no reply ever.
                vars(each)["_faults"] = Faults(frozenset({"down"}))
                each.release()


async def _swallow(field: Field, chance: random.Random) -> None:
    """Lose the reply to a script, and all after it, until somebody gives the connection up."""
    links, whom = _choose(field, chance)
    loop = asyncio.get_running_loop()
    until = loop.time() + chance.uniform(0.5, 3) * field.lease_time
    with field.struck("swallow", whom) as result:
        result["n"] = 0
        while loop.time() < until:
            sent = asyncio.Event()
            for link in links:
                match = partial(_falls_silent, link, chance, sent)
                link.begin("swallow", partial(_cut_after, match))
            try:
                async with asyncio.timeout_at(until):
                    await sent.wait()
                result["n"] += 1
                await asyncio.sleep(chance.uniform(0.1, 0.5) * field.lease_time)
            except TimeoutError:
                return
            finally:
                _recover(links)


def _falls_silent(link: Link, chance: random.Random, sent: asyncio.Event, command: bytes) -> bool:
    """Choose some scripts, and let nothing come back any more from then on."""
    if _SCRIPT in command and not sent.is_set() and chance.random() < _SWALLOWED:
        link.begin("swallow", lambda proxy: proxy.black_hole("down"))
        sent.set()
    return False


def _recover(links: list[Link]) -> None:
    for link in links:
        link.proxy.cut()
        link.end("swallow")


async def _duplicate(field: Field, chance: random.Random) -> None:
    """Cut connections after a script was executed, and deliver its bytes once more later."""
    links, whom = _choose(field, chance)
    sent: list[tuple[EmbeddedServer, bytes]] = []

    def remembers(server: EmbeddedServer, command: bytes) -> bool:
        chosen = _SCRIPT in command and chance.random() < _CUT
        if chosen:
            sent.append((server, command))
        return chosen

    with field.struck("duplicate", whom) as result:
        for link in links:
            link.begin("duplicate", partial(_cut_after, partial(remembers, link.server)))
        try:
            await asyncio.sleep(chance.uniform(0.2, 1) * field.lease_time)
        finally:
            for link in links:
                link.end("duplicate")
        await asyncio.sleep(chance.uniform(0, 2) * field.lease_time)
        login = packed(("AUTH", USER, PASSWORD)) if "user" in field.needs else b""
        for server, command in sent:
            await _deliver(server, login + command)
        result["n"] = len(sent)


def _cut_after(match: Callable[[bytes], bool], proxy: FaultProxy) -> None:
    proxy.cut_after_execution(match, _ALWAYS)


async def _deliver(server: EmbeddedServer, commands: bytes) -> None:
    """Have a server execute bytes of a connection that broke; nobody reads the replies."""
    try:
        async with asyncio.timeout(1):
            reader, writer = await asyncio.open_connection(server.host, server.port)
            try:
                writer.write(commands + packed(("ECHO", "delivered")))
                await reader.readuntil(b"$9\r\ndelivered\r\n")
            finally:
                writer.close()
    except (OSError, EOFError, TimeoutError):
        # It does not run, or not any more: then the bytes are lost, as they may be.
        return


def _refuse(chance: random.Random, lease: float, proxy: FaultProxy) -> None:
    proxy.refuse()
    proxy.cut()


def _cut_after_some(chance: random.Random, lease: float, proxy: FaultProxy) -> None:
    _cut_after(lambda command: _SCRIPT in command and chance.random() < _CUT, proxy)


_LINKS = "a link, or all of one server,"

CUT = Nemesis("cut", f"{_LINKS} is cut (RST)", _cut, needs=frozenset({"links"}), pause=(0.05, 0.5))
REFUSE = _lasting("refuse", f"{_LINKS} is cut and refuses connections for 0.1 to 3 leases", _refuse)
BLACK_HOLE_UP = _lasting(
    "black-hole-up",
    f"what workers send over {_LINKS} disappears for 0.1 to 3 leases",
    lambda chance, lease, proxy: proxy.black_hole("up"),
)
BLACK_HOLE_DOWN = _lasting(
    "black-hole-down",
    f"replies over {_LINKS} disappear for 0.1 to 3 leases",
    lambda chance, lease, proxy: proxy.black_hole("down"),
    loses=True,
)
BLACK_HOLE = _lasting(
    "black-hole",
    f"everything over {_LINKS} disappears for 0.1 to 3 leases",
    lambda chance, lease, proxy: proxy.black_hole(),
    loses=True,
)
SWALLOW = Nemesis(
    "swallow",
    f"after 5 % of the scripts over {_LINKS} no reply comes any more, for 0.1 to 0.5 leases",
    _swallow,
    needs=frozenset({"links"}),
)
HALF_OPEN = Nemesis(
    "half-open",
    f"open connections over {_LINKS} fall silent for ever; new ones work",
    _half_open,
    needs=frozenset({"links"}),
)
CUT_AFTER = _lasting(
    "cut-after", f"{_LINKS} is cut after 2 % of the scripts, instead of the reply", _cut_after_some
)
DELAY = _lasting(
    "delay",
    f"everything over {_LINKS} is 0 to 2 leases late",
    lambda chance, lease, proxy: proxy.delay(chance.uniform(0, 2) * lease),
)
DRIBBLE = _lasting(
    "dribble",
    f"replies over {_LINKS} come in pieces of 1 to 16 bytes",
    lambda chance, lease, proxy: proxy.dribble(chance.randint(1, 16), chance.uniform(0.001, 0.02)),
)
HOLD = _lasting(
    "late",
    f"what workers send over {_LINKS} arrives 0.1 to 2 leases later, all at once",
    lambda chance, lease, proxy: proxy.hold(),
    (0.1, 2),
)
DUPLICATE = Nemesis(
    "duplicate",
    f"{_LINKS} is cut after 2 % of the scripts, whose bytes arrive again 0 to 2 leases later",
    _duplicate,
    needs=frozenset({"links"}),
)
