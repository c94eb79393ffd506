"""What a user must be allowed so that it can end what it acquires."""

from __future__ import annotations

from functools import lru_cache

from redisson_py._redis.commands.contract import RedisCommands
from redisson_py._redis.commands.request import AcquireValues
from redisson_py._redis.scripts.source import CALL, Script


def needs(commands: RedisCommands, request: AcquireValues) -> bytes:
    """Return what an acquire asks for beside the grant; nothing, unless the request says so.

    It is the commands that a release, a renewal and a new lease use, and behind a colon the channel
    on which releases are announced.
    """
    if not request.checks:
        return b""
    scripts = commands.release_script, commands.renew_script, commands.set_lease_script
    return b"%s:%s" % (_used(scripts), commands.channel)


@lru_cache
def _used(scripts: tuple[Script, ...]) -> bytes:
    names = {name for script in scripts for name in CALL.findall(script.text)}
    # The channel stands for it: some servers have it by another name.
    return " ".join(sorted(names - {"PUBLISH"})).encode()
