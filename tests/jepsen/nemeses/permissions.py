"""Trouble with permissions: those of the workers' user are revoked and restored."""

from __future__ import annotations

import asyncio
import random

from redisson_py.testing import EmbeddedServer
from tests.jepsen.field import USER, Field
from tests.jepsen.nemeses.nemesis import Nemesis, finish

#: What is revoked, and what gives it back; what is not named stays as it was.
_REVOKED = {
    "all commands": ("-@all",),
    "scripts": ("-evalsha",),
    "expiry": ("-pexpire",),
    "messages": ("resetchannels",),
    "keys": ("resetkeys",),
    "log in": ("off",),
}


async def _revoke(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    what = chance.choice(sorted(_REVOKED))
    async with field.turn((server, "user")):
        rules = await _rules(field, server)
        if rules is None:
            return
        with field.struck("acl", server.address, value=what):
            try:
                await field.tell(server, "ACL", "SETUSER", USER, *_REVOKED[what])
                if what == "log in":
                    await field.tell(server, "CLIENT", "KILL", "USER", USER)
                await asyncio.sleep(chance.uniform(0.1, 2) * field.lease_time)
            finally:
                await finish(field.insist(server, "ACL", "SETUSER", USER, "reset", *rules))


async def _rules(field: Field, server: EmbeddedServer) -> list[str] | None:
    """Return the rules of the workers' user, as ACL LIST has them."""
    for line in await field.tell(server, "ACL", "LIST") or []:
        _, name, *rules = str(line).split()
        if name == USER:
            return rules
    return None


ACL = Nemesis(
    "acl",
    "permissions of the workers' user are revoked for 0.1 to 2 leases, then restored",
    _revoke,
    needs=frozenset({"user"}),
)
