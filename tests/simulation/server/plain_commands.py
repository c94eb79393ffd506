"""Commands for keys, strings, hashes and lists."""

from __future__ import annotations

from tests.simulation.server.database import Database, Hash, List
from tests.simulation.server.numbers import GREATEST, LEAST, added, integer
from tests.simulation.server.registry import command
from tests.simulation.server.replies import (
    OK,
    SYNTAX,
    ErrorReply,
    Map,
    Reply,
    Status,
    UnsupportedError,
    wrong_arity,
)
from tests.simulation.server.sorted_set import SortedSet

_TYPES = {bytes: b"string", Hash: b"hash", List: b"list", SortedSet: b"zset"}


@command
def time(db: Database) -> Reply:
    return [b"%d" % part for part in divmod(db.now_us, 1_000_000)]


@command
def dbsize(db: Database) -> Reply:
    return len(db.keys())


@command
def type_(db: Database, key: bytes) -> Reply:
    value = db.find(key)
    return Status(b"none" if value is None else _TYPES[type(value)])


@command
def exists(db: Database, key: bytes, *more: bytes) -> Reply:
    return sum(db.find(each) is not None for each in (key, *more))


@command
def del_(db: Database, key: bytes, *more: bytes) -> Reply:
    count = 0
    for each in (key, *more):
        if db.find(each) is not None:
            db.delete(each)
            count += 1
    return count


@command
def persist(db: Database, key: bytes) -> Reply:
    return int(db.find(key) is not None and db.persist(key))


@command
def pttl(db: Database, key: bytes) -> Reply:
    return db.left_ms(key)


@command
def pexpire(db: Database, key: bytes, life_ms: bytes) -> Reply:
    return _expire(db, key, db.now_ms + integer(life_ms), b"pexpire")


@command
def pexpireat(db: Database, key: bytes, at_ms: bytes) -> Reply:
    return _expire(db, key, integer(at_ms), b"pexpireat")


def _expire(db: Database, key: bytes, at_ms: int, name: bytes) -> Reply:
    if not LEAST <= at_ms <= GREATEST:
        raise ErrorReply(b"ERR invalid expire time in '%b' command" % name)
    if db.find(key) is None:
        return 0
    db.expire(key, at_ms)
    return 1


@command
def get(db: Database, key: bytes) -> Reply:
    return db.typed(key, bytes)


@command
def set_(db: Database, key: bytes, value: bytes, *options: bytes) -> Reply:
    ends_at = None
    if options:
        word = options[0].upper()
        if word in (b"EX", b"NX", b"XX", b"GET", b"KEEPTTL", b"EXAT", b"PXAT"):
            raise UnsupportedError(f"SET with {options}")
        if word != b"PX" or len(options) != 2:
            raise ErrorReply(SYNTAX)
        life = integer(options[1])
        ends_at = db.now_ms + life
        if life <= 0 or ends_at > GREATEST:
            raise ErrorReply(b"ERR invalid expire time in 'set' command")
    db.put(key, value)
    db.persist(key)
    if ends_at is not None:
        db.expire(key, ends_at)
    return OK


@command
def incr(db: Database, key: bytes) -> Reply:
    return _increment(db, key, 1)


@command
def incrby(db: Database, key: bytes, change: bytes) -> Reply:
    return _increment(db, key, integer(change))


@command
def decrby(db: Database, key: bytes, change: bytes) -> Reply:
    number = integer(change)
    if number == LEAST:
        raise ErrorReply(b"ERR decrement would overflow")
    return _increment(db, key, -number)


def _increment(db: Database, key: bytes, change: int) -> int:
    found = db.typed(key, bytes)
    number = added(0 if found is None else integer(found), change)
    db.put(key, b"%d" % number)
    return number


@command
def hget(db: Database, key: bytes, field: bytes) -> Reply:
    fields = db.typed(key, Hash)
    return None if fields is None else fields.get(field)


@command
def hmget(db: Database, key: bytes, field: bytes, *more: bytes) -> Reply:
    fields = db.typed(key, Hash) or Hash()
    return [fields.get(each) for each in (field, *more)]


@command
def hexists(db: Database, key: bytes, field: bytes) -> Reply:
    fields = db.typed(key, Hash)
    return int(fields is not None and field in fields)


@command
def hlen(db: Database, key: bytes) -> Reply:
    return len(db.typed(key, Hash) or ())


@command
def hkeys(db: Database, key: bytes) -> Reply:
    return [*(db.typed(key, Hash) or ())]


@command
def hvals(db: Database, key: bytes) -> Reply:
    return [*(db.typed(key, Hash) or Hash()).values()]


@command
def hgetall(db: Database, key: bytes) -> Reply:
    fields = db.typed(key, Hash) or Hash()
    return Map([item for pair in fields.items() for item in pair])


@command
def hset(db: Database, key: bytes, field: bytes, value: bytes, *more: bytes) -> Reply:
    if len(more) % 2:
        raise wrong_arity(b"HSET")
    fields = db.made(key, Hash)
    before = len(fields)
    fields[field] = value
    for i in range(0, len(more), 2):
        fields[more[i]] = more[i + 1]
    return len(fields) - before


@command
def hincrby(db: Database, key: bytes, field: bytes, change: bytes) -> Reply:
    more = integer(change)
    fields = db.typed(key, Hash)
    found = b"0" if fields is None else fields.get(field, b"0")
    number = added(integer(found, b"ERR hash value is not an integer"), more)
    db.made(key, Hash)[field] = b"%d" % number
    return number


@command
def hdel(db: Database, key: bytes, field: bytes, *more: bytes) -> Reply:
    fields = db.typed(key, Hash)
    if fields is None:
        return 0
    count = sum(fields.pop(each, None) is not None for each in (field, *more))
    db.tidy(key)
    return count


@command
def llen(db: Database, key: bytes) -> Reply:
    return len(db.typed(key, List) or ())


@command
def lindex(db: Database, key: bytes, index: bytes) -> Reply:
    items = db.typed(key, List)
    if items is None:
        return None
    i = integer(index)
    return items[i] if -len(items) <= i < len(items) else None


@command
def lrange(db: Database, key: bytes, first: bytes, last: bytes) -> Reply:
    begin, end = integer(first), integer(last)
    items = db.typed(key, List) or List()
    return items[slice(*bounds(begin, end, len(items)))]


def bounds(first: int, last: int, length: int) -> tuple[int, int]:
    """Return the ends of a slice for two places, both of which count, from the end if below 0."""
    begin = max(0, first + length if first < 0 else first)
    return begin, max(begin, 1 + (last + length if last < 0 else last))


@command
def lpos(db: Database, key: bytes, item: bytes) -> Reply:
    items = db.typed(key, List) or List()
    return items.index(item) if item in items else None


@command
def rpush(db: Database, key: bytes, item: bytes, *more: bytes) -> Reply:
    items = db.made(key, List)
    items += (item, *more)
    return len(items)


@command
def lpop(db: Database, key: bytes) -> Reply:
    items = db.typed(key, List)
    if items is None:
        return None
    first = items.pop(0)
    db.tidy(key)
    return first


@command
def lrem(db: Database, key: bytes, count: bytes, item: bytes) -> Reply:
    most = integer(count)
    if most <= 0:
        raise UnsupportedError("LREM from the end, or of all")
    items = db.typed(key, List)
    removed = 0
    while items and removed < most and item in items:
        items.remove(item)
        removed += 1
    if items is not None:
        db.tidy(key)
    return removed


@command
def publish(db: Database, channel: bytes, message: bytes) -> Reply:
    return db.channels.publish(channel, message)


@command
def spublish(db: Database, channel: bytes, message: bytes) -> Reply:
    return db.channels.publish_sharded(channel, message)
