"""Commands outside of scripts, the texts of errors, and what Lua returns: the same on both."""

from __future__ import annotations

import re

import pytest

from tests.simulation.server.twins import Link, Twins

#: Scores that are written in each of the ways in which a double is.
SCORES = (
    "1.5 a 1700000000000 b 1e21 c -inf d +inf e 0.1 f 1e-7 g -0 h 1e16 i 9007199254740993 j"
    " 1e300 k 123456789012345680000 l -2.25 m 0.0000012 n 123456.789 o 1e-300 p .5 q 5. r"
)

_NO_SHA = b"0" * 40
COMMANDS = [
    *("PING", "PING x", "PING x y", "CLIENT GETNAME", "CLIENT SETNAME ab", "CLIENT GETNAME"),
    *("CLIENT SETINFO LIB-NAME x", "CLIENT SETINFO lib-ver 1", "CLIENT"),
    *("AUTH x", "AUTH default x", "AUTH other x", "AUTH a b c"),
    *("HELLO 4", "HELLO x", "HELLO 3 BAD", "HELLO 3 AUTH other x"),
    *("SELECT 16", "SELECT x", "SELECT 1", "DBSIZE", "SET k v", "DBSIZE", "SELECT 0", "EXISTS k"),
    *("SCRIPT EXISTS SHA", "SCRIPT FLUSH", "EVALSHA SHA 0", "EVALSHA zz 0"),
    *("EVALSHA", "EVALSHA x y", "EVALSHA SHA y", "EVALSHA SHA -1", "EVALSHA SHA 3 a", "EVAL x"),
    *("GET", "GET none", "SET s v", "SET s v PX 0", "SET s v PX x", "SET s v FOO"),
    *("SET s v PX 9223372036854775807", "INCRBY s 1", "INCRBY n x", "INCRBY n 5", "DECRBY n 7"),
    *("INCRBY n -9223372036854775807", "DECRBY n -9223372036854775808", "GET n", "TYPE n"),
    *("HGET s f", "HSET h f", "HSET h f v g", "HSET h f v g w", "HSET h f x", "HGETALL h"),
    *("HMGET h f none g", "HKEYS h", "HVALS h", "HLEN h", "HEXISTS h g", "HINCRBY h f 1"),
    *("HINCRBY h c x", "HINCRBY h c 3", "HDEL h f f none", "HDEL h g c", "EXISTS h h s s"),
    *("RPUSH l a b a c", "LPOS l a", "LPOS l none", "LPOS none a", "LINDEX l -1", "LINDEX l 4"),
    *("LINDEX l -5", "LINDEX l x", "LRANGE l 0 -1", "LRANGE l 1 1", "LRANGE l 3 1"),
    *("LRANGE l -9 -4", "LRANGE l -2 9", "LREM l 1 a", "LREM l 5 none", "LLEN l", "LPOP l"),
    *("LPOP l", "LPOP l", "LPOP l", "TYPE l", "LLEN l", "LRANGE l 0 -1", "LLEN s", "RPUSH s x"),
    *("ZADD z " + SCORES, "ZRANGE z 0 -1 WITHSCORES", "ZRANGE z 0 -1", "ZRANGE z -1 -1"),
    *("ZRANGE z 2 1", "ZRANGE z x 1", "ZSCORE z a", "ZSCORE z k", "ZSCORE z none", "ZCARD z"),
    *(
        "ZINCRBY z 1.5 a",
        "ZINCRBY z 2 more",
        "ZINCRBY z x a",
        "ZINCRBY z +inf d",
        "ZREM z more",
        "INCR i",
        "INCR i",
        "INCR h",
        "ZADD z nan x",
        "ZADD z 0x10 x",
        "ZADD z 1_0 x",
        "ZADD z 1",
        "ZADD z 1 a 2",
    ),
    *("ZADD z XX 1 none", "ZADD z XX CH 3 a", "ZADD z XX GT CH 2 a", "ZADD z GT 9 a 9 new"),
    *("ZADD z CH 9 a 8 new", "ZADD s 1 x", "ZADD none XX 1 a", "EXISTS none", "ZREM z a a none"),
    *("ZADD z NX 9 a 7 newer", "ZADD z NX 7 newer", "ZADD s NX 1 x", "ZADD z NX 1", "ZREM z newer"),
    *("ZRANK z a", "ZRANK z d", "ZRANK z none", "ZRANK none a", "ZRANK s a", "ZRANK z"),
    *("ZCOUNT z -inf +inf", "ZCOUNT z (0 1", "ZCOUNT z 5 1", "ZCOUNT z x 1", "ZCOUNT none 0 1"),
    *("ZRANGEBYSCORE z 0 2", "ZRANGEBYSCORE z 0 2 WITHSCORES LIMIT 1 2", "ZRANGEBYSCORE z x 1"),
    *("ZRANGEBYSCORE z 0 9 LIMIT 1 -1", "ZRANGEBYSCORE z 0 9 LIMIT -1 5"),
    *("ZRANGEBYSCORE z 0 9 LIMIT x 1", "ZRANGEBYSCORE z 0 9 FOO"),
    *("ZREVRANGEBYSCORE z (+inf -inf WITHSCORES LIMIT 0 2", "ZREVRANGEBYSCORE z 1 5"),
    *("ZREMRANGEBYSCORE z -inf (1", "ZRANGE z 0 -1", "ZREMRANGEBYSCORE z -inf inf", "TYPE z"),
    *("PEXPIRE s x", "PEXPIRE s 9223372036854775807", "PEXPIRE none 5", "PTTL s", "PTTL none"),
    *("PEXPIREAT s 9223372036854775807", "PERSIST s", "PERSIST s", "PEXPIRE s -1", "PERSIST s"),
    *("DEL n n none", "PUBLISH c m", "SPUBLISH c m", "PUBLISH c", "PUBSUB NUMSUB a b"),
    *("PUBSUB SHARDNUMSUB a", "PUBSUB NUMSUB", "FLUSHALL x", "FLUSHALL SYNC", "DBSIZE"),
]
SCRIPTS = [
    "returns 1",
    "\n\nreturns 1",
    "return redis.call('HGET', 's', 'x')",
    "local function f()\n return redis.call('HGET', 's', 'x')\nend\nlocal x = f()\nreturn x",
    "local function f()\n return redis.call('HGET', 's', 'x')\nend\nreturn f()",
    "#!lua flags=allow-oom\nlocal x = 1\nredis.call('HGET', 's', 'x')",
    "local x = redis.pcall('HGET', 's', 'x')\nreturn {x.err, x.ok or 1, x.line or 2}",
    "return redis.pcall('HGET', 's', 'x')",
    "redis.call('SET', 'kept', 'v')\nredis.call('HGET', 's', 'x')",
    "return redis.call('GET', 'kept')",
    "\n\nlocal x = nil + 1",
    "error('text')",
    "x = 1",
    "return x",
    "return redis.error_reply('abc')",
    "return redis.error_reply('-abc')",
    "return redis.error_reply('MY abc')",
    "return redis.status_reply('MY abc')",
    "return redis.call('SET', 's', 'v')",
    "return {1, 2.7, -2.7, 'x', false, true, {ok = 'a'}, {err = 'b c'}, {1, {2}}, nil, 4}",
    "return math.huge",
    "return 0 - math.huge",
    "return 1e300",
    "return 2 ^ 53 + 2",
    "return -0.0",
    "return true",
    "return false",
    "return",
    "return ''",
    "return {}",
    "return redis.call('GET', nil)",
    "return redis.call('GET', true)",
    "return redis.call('GET', {})",
    "return redis.call()",
    "return redis.call('GET')",
    "return redis.call('HSET', 'h', 'f', 'v', 'g')",
    "return redis.call('get', 'none') == false",
    "return redis.call('ZSCORE', 'none', 'a') == false",
    "return redis.call('HMGET', 'none', 'a', 'b')",
    "return {KEYS[1] or 'none', #KEYS, #ARGV, ARGV[1] or 'none'}",
    "local t = {} for i = 1, 9 do t[i] = 10 ^ i + 0.5 end"
    " return redis.call('RPUSH', 'l', unpack(t))",
    "redis.call('RPUSH', 'l', 1e8, 2 ^ 62, 2 ^ 63, 1 / 3, -1e20, 0 / 1, 1e21, math.huge, -7)",
    "return redis.call('LRANGE', 'l', 0, -1)",
    "for i = 1, 6000 do redis.call('RPUSH', 'long', i) end"
    " return #redis.call('LRANGE', 'long', 0, -1)",
    "redis.call('ZADD', 'z', 1.5, 'a', 1e21, 'b')"
    " return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')",
    "return {redis.call('HGETALL', 'h'), type(redis.call('ZSCORE', 'z', 'a'))}",
    "local a = redis.call('TIME') for i = 1, 300000 do end local b = redis.call('TIME')"
    " return {a[1], a[2], b[1], b[2]}",
    "redis.call('SET', 'short', '1', 'PX', 1) for i = 1, 1000000 do end"
    " return {redis.call('PTTL', 'short'), redis.call('EXISTS', 'short')}",
    "return {string.format('%.0f %5.1f', 2 ^ 53, 1 / 3), tostring(1e15), 7 % -3}",
    "return {tostring(1e14), tostring(1e14 / 3), tostring(-0.0)}",
    "return {tonumber('0x10'), tonumber(' 7 '), tonumber('') or 'nil', tonumber('1e3')}",
]


@pytest.mark.parametrize("protocol", [b"2", b"3"])
def test_commands(twins: Twins, protocol: bytes) -> None:
    hello(twins, protocol)
    twins.set_clock()
    for row in COMMANDS:
        twins.both(*(_NO_SHA if word == b"SHA" else word for word in row.encode().split()))
    twins.both(b"CLIENT", b"SETNAME", b"a b")
    twins.both(b"CLIENT", b"SETINFO", b"LIB-NAME", b"a b")
    twins.both(b"HELLO", protocol, b"SETNAME", b"a b")
    twins.both(b"SET", b"\xff\x00\r\n", b"\xff\x00\r\n")
    twins.both(b"GET", b"\xff\x00\r\n")


@pytest.mark.parametrize("protocol", [b"2", b"3"])
def test_scripts(twins: Twins, protocol: bytes) -> None:
    hello(twins, protocol)
    twins.both(b"SET", b"s", b"v")
    for text in SCRIPTS:
        twins.play(b"EVAL", text.encode(), b"0")
        twins.play(b"EVAL", text.encode(), b"1", b"key", b"arg")
    twins.both(b"EVAL", b"return #KEYS + #ARGV", b"5000", *(b"%d" % i for i in range(7000)))
    assert twins.compare_keys() > 5


def test_messages(twins: Twins) -> None:
    hello(twins, b"3")
    for row in ("SUBSCRIBE a b a", "SSUBSCRIBE a c", "PUBSUB NUMSUB a x", "PUBSUB SHARDNUMSUB a"):
        same_pushes(twins, row)
    # What a command tells its own session comes after its reply.
    for row in ("PUBLISH a m", "SPUBLISH a m", "PUBLISH none m", "PING"):
        same_pushes(twins, row)
    text = b"redis.call('PUBLISH', 'a', '1') redis.call('SPUBLISH', 'a', '2') return 5"
    same_pushes(twins, [b"EVAL", text, b"0"])
    for row in (
        "UNSUBSCRIBE a none",
        "UNSUBSCRIBE b",
        "UNSUBSCRIBE",
        "SUNSUBSCRIBE c",
        "SUBSCRIBE",
    ):
        same_pushes(twins, row)
    assert twins.server.subscribed() == [b"a"]


def test_messages_of_resp2(twins: Twins) -> None:
    hello(twins, b"2")
    for row in ("SUBSCRIBE a", "GET k", "PUBLISH a m", "PING", "PING x", "UNSUBSCRIBE", "PING"):
        same_pushes(twins, row)


def test_hello(twins: Twins) -> None:
    for words in ((), (b"2",), (b"3",), (b"3", b"AUTH", b"default", b"x", b"SETNAME", b"n")):
        theirs = about(twins.real.ask(b"HELLO", *words))
        twins.sent.clear()
        twins.session.execute((b"HELLO", *words))
        assert about(b"".join(twins.sent)) == theirs


def about(reply: bytes) -> bytes:
    """Return an answer to HELLO without what no two servers share: version and number."""
    return re.sub(rb"\$\d+\r\n\d+\.\d+\.\d+\r\n|(?<=\$2\r\nid\r\n):\d+\r\n", b"", reply)


def hello(twins: Twins, protocol: bytes) -> None:
    twins.real.ask(b"HELLO", protocol)
    twins.session.execute((b"HELLO", protocol))


def same_pushes(twins: Twins, command: str | list[bytes]) -> None:
    """Compare all that a command has a connection hear, up to the answer of the next command."""
    words = command.encode().split() if isinstance(command, str) else command
    end = b"$3\r\nend\r\n"
    twins.real.send(tuple(words), (b"PING", b"end"))
    theirs = [twins.real.next()]
    while not theirs[-1].endswith(end):
        theirs.append(twins.real.next())
    twins.sent.clear()
    twins.session.execute(tuple(words))
    twins.session.execute((b"PING", b"end"))
    assert b"".join(twins.sent) == b"".join(theirs), words


def test_quit(twins: Twins, valkey_url: str) -> None:
    link = Link(valkey_url)
    sent: list[bytes] = []
    closed: list[bool] = []
    session = twins.server.session(sent.append, lambda: closed.append(True))
    session.execute((b"QUIT",))
    session.execute((b"PING",))
    assert b"".join(sent) == link.ask(b"QUIT")
    assert closed == [True]
    with pytest.raises(ConnectionError):
        link.next()
    link.close()
