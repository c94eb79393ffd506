"""Which permissions are asked for, and by which harmless commands. No I/O.

ACL DRYRUN is asked first. Where there is none (Redis 6.2), or the user may not use it, the same
commands are sent: a server looks at permissions before it looks at anything but the number of
arguments. They ask for a random key that is not there, or are refused for another reason than the
user: not a number, an odd number of fields. Only SET writes, a key that expires, and RPUSH
comes next: it finds the wrong type there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from redisson_py import _keys
from redisson_py._cli.checks.facts import Refusal
from redisson_py.errors import BackendError

#: Commands that answer by a message: only ACL DRYRUN can tell. The trial shows the rest.
LISTENING = ("ssubscribe", "subscribe", "sunsubscribe", "unsubscribe")
#: Text where a number or a float is expected.
_NO_NUMBER = "x"
_NO_SCRIPT = "0" * 40
#: Milliseconds that the key lives.
_LIFE = "10000"
_CHANNELS = (
    _keys.lock_channel,
    _keys.read_write_channel,
    _keys.permit_channel,
    _keys.latch_channel,
    _keys.barrier_channel,
    _keys.rate_channel,
)

Words = tuple[str, ...]


def commands(
    allowed: Iterable[str], key: bytes, prefix: str, script: str, database: int
) -> dict[str, Words]:
    """Return what is asked for: the words of a command, by the rule that allows it.

    Args:
        allowed: The commands that the library needs, in the words of ACL SETUSER without a +.
        key: A random key of this examination.
        prefix: What the user's services put before every name.
        script: The text of a script of ours.
        database: The database in use.
    """
    written = key.decode()
    k = f"{written}:none"
    first, *channels = [channel(key).decode() for channel in _CHANNELS]
    one: dict[str, Words] = {
        "asking": ("ASKING",),
        "client|setname": ("CLIENT", "SETNAME", "redisson-py-doctor"),
        "cluster|slots": ("CLUSTER", "SLOTS"),
        "evalsha": ("EVALSHA", _NO_SCRIPT, "0"),
        "info": ("INFO", "server"),
        "ping": ("PING",),
        "publish": ("PUBLISH", first, "0"),
        "pubsub|shardnumsub": ("PUBSUB", "SHARDNUMSUB", first),
        "rpush": ("RPUSH", written, "m"),
        "script|load": ("SCRIPT", "LOAD", script),
        "select": ("SELECT", str(database)),
        "set": ("SET", written, "0", "PX", _LIFE, "NX"),
        "spublish": ("SPUBLISH", first, "0"),
        "time": ("TIME",),
        "wait": ("WAIT", "0", "1"),
        # An odd number of fields.
        "hset": ("HSET", k, "f", "v", "f"),
        "zadd": ("ZADD", k, _NO_NUMBER, "m"),
    }
    one |= {name: (name.upper(), first) for name in LISTENING}
    for names, arguments in (
        ("decrby incrby", (_NO_NUMBER,)),
        ("del exists get hgetall hkeys hlen hvals llen lpop persist pttl type zcard", ()),
        ("hdel hexists hget hmget lpos zrank zrem zscore", ("m",)),
        ("hincrby", ("f", _NO_NUMBER)),
        ("lindex", ("0",)),
        ("lrange zcount zrange zrangebyscore zremrangebyscore zrevrangebyscore", ("0", "0")),
        ("lrem", ("0", "m")),
        ("pexpire pexpireat", (_LIFE,)),
    ):
        one |= {name: (name.upper(), k, *arguments) for name in names.split()}
    wanted = sorted(allowed, key=lambda name: (name != "set", name != "rpush", name))
    asked = {f"+{name}": one[name] for name in wanted}
    others = [
        _keys.tombstone(key, "x"),
        _keys.fencing_token(key),
        _keys.client_description(prefix, "x"),
    ]
    asked |= {f"~{each.decode()}": ("EXISTS", each.decode()) for each in others}
    # Each client that waits is called on a channel of its own.
    asked |= {f"&{each}": ("PUBLISH", each, "0") for each in (f"{first}:x", *channels)}
    return asked


def tryable(asked: dict[str, Words]) -> dict[str, Words]:
    """Return those of the commands that can be sent, and not only asked about."""
    return {rule: words for rule, words in asked.items() if rule[1:] not in LISTENING}


def refusals(asked: dict[str, Words], replies: Sequence[Any]) -> tuple[Refusal, ...]:
    """Return what is missing, each once, from the replies to ACL DRYRUN or to the commands."""
    missing: dict[str, Refusal] = {}
    for words, reply in zip(asked.values(), replies, strict=True):
        text = str(reply) if isinstance(reply, BackendError) else _text(reply)
        if "no permissions to" in text.lower():
            rule = _rule(words, text)
            missing.setdefault(rule, Refusal(rule, text))
    return tuple(sorted(missing.values(), key=lambda each: each.rule))


def _rule(words: Words, text: str) -> str:
    """Return the rule that would allow a command, by what the server says that it lacks."""
    if "to run" not in text:
        return "&redisson*" if "channel" in text.rpartition("'")[2] else "~ (keys)"
    has_part = words[0] in ("CLIENT", "CLUSTER", "PUBSUB", "SCRIPT")
    return "+" + "|".join(words[: 2 if has_part else 1]).lower()


def _text(reply: object) -> str:
    return reply.decode(errors="replace") if isinstance(reply, bytes) else ""
