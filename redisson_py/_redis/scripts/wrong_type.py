"""Says what a key is that Redis refused with WRONGTYPE.

The server names neither the key nor its type. They are asked for after the refusal, so that a call
that is served costs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from redisson_py._redis.scripts.packing import unpacked
from redisson_py._redis.scripts.source import Script
from redisson_py._redis.stream.call import Call
from redisson_py.errors import RedissonError, ScriptError

#: The type of key that plain commands need.
_PLAIN = {"GET": "string", "HEXISTS": "hash", "HGET": "hash"}
#: What of ours has a key of this type under its bare name.
_OURS = {"hash": "a lock or another program", "string": "a semaphore, a latch or another program"}


async def explained(
    call: Call, error: ScriptError, type_of: Callable[[bytes], Awaitable[object]]
) -> ScriptError:
    """Return the error of a call that was refused with WRONGTYPE, with what its key is.

    It stays as it is if Redis does not say, or the key has changed meanwhile.
    """
    for key, wanted in _keys(call):
        try:
            found = await type_of(key)
        except RedissonError:
            # Not permitted, or not served any more: what Redis said must do.
            return error
        kind = found.decode(errors="replace") if isinstance(found, bytes) else str(found)
        if kind not in (wanted, "none"):
            user = _OURS.get(kind, "another program") if key == call.key else "another program"
            name = key.decode(errors="replace")
            message = (
                f"WRONGTYPE {name!r} is a Redis {kind}, not a {wanted}: {user} uses this key."
                " Use another name or a prefix"
            )
            return ScriptError(error.script, message, error.key, error.where)
    return error


def _keys(call: Call) -> Iterator[tuple[bytes, str]]:
    """Yield the keys of a call and the types that they must have."""
    script, args = call.script, call.args
    if isinstance(args, bytes) and isinstance(script, Script):
        yield from zip(unpacked(args)[3:], script.key_types, strict=False)
    elif isinstance(args, tuple) and args[0] in _PLAIN:
        yield call.key, _PLAIN[str(args[0])]
