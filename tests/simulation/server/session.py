"""One connection, as the server sees it: commands in, replies and messages out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.server.numbers import integer
from tests.simulation.server.registry import BUSY, COMMANDS, OUT_OF_MEMORY, Command, described
from tests.simulation.server.replies import (
    OK,
    SYNTAX,
    ErrorReply,
    Map,
    Reply,
    Status,
    UnsupportedError,
    Verbatim,
    encode,
    encode_push,
    wrong_arity,
)
from tests.simulation.server.scripts import interpreter

if TYPE_CHECKING:
    from tests.simulation.server.server import Server

#: What it says it is.
VERSION, REDIS_VERSION = b"9.1.2", b"7.2.4"

#: What a session in RESP2 may say while it is subscribed.
_WHILE_SUBSCRIBED = frozenset(
    (b"SUBSCRIBE", b"SSUBSCRIBE", b"UNSUBSCRIBE", b"SUNSUBSCRIBE", b"PING", b"QUIT")
)
#: What it does while a script runs.
_WHILE_BUSY = frozenset((b"AUTH", b"HELLO", b"QUIT"))
_NO_REPLY = object()


class Session:
    """A connection.

    Args:
        server: Whose it is.
        number: Its id.
        send: Called with bytes for the client.
        close: Called when the server closes the connection.

    Attributes:
        name: What the client calls itself.
        ended: The connection is gone: what still arrives is dropped.
    """

    def __init__(
        self, server: Server, number: int, send: Callable[[bytes], None], close: Callable[[], None]
    ) -> None:
        self.server, self.number, self.close = server, number, close
        self.name = b""
        self.ended = False
        self._send = send
        self._database = 0
        self._resp3 = False
        #: Channels, and sharded ones; the values mean nothing, the order is kept.
        self._channels: dict[bool, dict[bytes, None]] = {False: {}, True: {}}
        #: Messages to this session that its own command caused: they follow its reply.
        self._later: list[bytes] = []

    def execute(self, command: tuple[bytes, ...]) -> None:
        """Execute one command and send its reply."""
        if self.ended:
            return
        if self.server.current is not None:
            raise UnsupportedError("a command inside of a command")
        self.server.current = self
        try:
            reply = self._reply(command)
        except ErrorReply as error:
            self._send(b"-%b\r\n" % error.text)
        else:
            if reply is not _NO_REPLY:
                self._send(encode(reply, self._resp3))
        finally:
            self.server.current = None
        later, self._later = self._later, []
        for message in later:
            self._send(message)
        if self.ended:
            self.close()

    @property
    def subscribed(self) -> list[bytes]:
        """The channels that it listens to, sharded or not, sorted."""
        return sorted({*self._channels[False], *self._channels[True]})

    def hear(self, kind: bytes, channel: bytes, message: bytes) -> None:
        """Send a message."""
        push = encode_push((kind, channel, message), self._resp3)
        if self.server.current is self:
            self._later.append(push)
        else:
            self._send(push)

    def end(self) -> None:
        """Forget the session: its connection is gone."""
        self.ended = True
        self.server.sessions.pop(self.number, None)
        for sharded, names in self._channels.items():
            for channel in names:
                self.server.channels.remove(channel, self, sharded=sharded)
            names.clear()

    def _reply(self, command: tuple[bytes, ...]) -> Reply:
        name = command[0].upper()
        if self.server.busy and name not in _WHILE_BUSY:
            raise ErrorReply(BUSY)
        if not self._resp3 and name not in _WHILE_SUBSCRIBED and self._listens():
            raise ErrorReply(
                b"ERR Can't execute '%b': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT /"
                b" RESET are allowed in this context" % name.lower()
            )
        own = _OWN.get(name)
        found = own or COMMANDS.get(name)
        if found is None:
            raise UnsupportedError(f"the command {command}")
        if not found.least < len(command) <= found.most + 1:
            raise wrong_arity(name)
        if own is not None:
            return own.run(self, *command[1:])
        if self.server.full and found.takes_memory:
            raise ErrorReply(OUT_OF_MEMORY)
        return found.run(self.server.database(self._database), *command[1:])

    # Scripts.

    def _evalsha(self, sha: bytes, count: bytes, *words: bytes) -> Reply:
        missing = ErrorReply(b"NOSCRIPT No matching script.")
        if len(sha) != 40:
            raise missing
        keys = _key_count(count, words)
        script = self.server.scripts.get(sha.lower())
        if script is None:
            raise missing
        return self._run(script, keys, words)

    def _eval(self, text: bytes, count: bytes, *words: bytes) -> Reply:
        keys = _key_count(count, words)
        script = self.server.scripts[self._load(text)]
        return self._run(script, keys, words)

    def _run(self, script: Any, keys: int, words: tuple[bytes, ...]) -> Reply:
        database = self.server.database(self._database)
        return interpreter().run(script, database, keys, words, full=self.server.full)

    def _load(self, text: bytes) -> bytes:
        sha = hashlib.sha1(text).hexdigest().encode()
        self.server.scripts[sha] = interpreter().compile(text)
        return sha

    def _script(self, verb: bytes, *words: bytes) -> Reply:
        match verb.upper(), words:
            case b"LOAD", (text,):
                return self._load(text)
            case b"EXISTS", _ if words:
                return [int(sha.lower() in self.server.scripts) for sha in words]
            case b"FLUSH", () | (b"SYNC" | b"ASYNC",):
                self.server.scripts.clear()
                return OK
        raise UnsupportedError(f"SCRIPT {verb!r} {words}")

    # The connection.

    def _ping(self, word: bytes | None = None) -> Reply:
        if not self._resp3 and self._listens():
            return [b"pong", word or b""]
        return Status(b"PONG") if word is None else word

    def _hello(self, *words: bytes) -> Reply:
        arguments = [*words]
        resp3, name = self._resp3, self.name
        if arguments:
            refusal = b"ERR Protocol version is not an integer or out of range"
            version = integer(arguments.pop(0), refusal)
            if version not in (2, 3):
                raise ErrorReply(b"NOPROTO unsupported protocol version")
            resp3 = version == 3
        while arguments:
            option = arguments.pop(0)
            if option.upper() == b"AUTH" and len(arguments) >= 2:
                self._auth(arguments.pop(0), arguments.pop(0))
            elif option.upper() == b"SETNAME" and arguments:
                name = _plain(arguments.pop(0), b"Client names")
            else:
                raise ErrorReply(b"ERR Syntax error in HELLO option '%b'" % option)
        self._resp3, self.name = resp3, name
        module = Map([b"name", b"lua", b"ver", 1, b"path", b"lua", b"args", []])
        about = [b"server", b"valkey", b"version", VERSION, b"proto", 3 if resp3 else 2]
        about += [b"id", self.number, b"mode", b"standalone", b"role", b"master"]
        return Map([*about, b"modules", [module]])

    def _auth(self, first: bytes, *more: bytes) -> Reply:
        """Accept any password of the user `default`, which needs none."""
        if len(more) > 1:
            raise ErrorReply(SYNTAX)
        if not more:
            raise ErrorReply(
                b"ERR AUTH <password> called without any password configured for the default"
                b" user. Are you sure your configuration is correct?"
            )
        if first != b"default":
            raise ErrorReply(b"WRONGPASS invalid username-password pair or user is disabled.")
        return OK

    def _client(self, verb: bytes, *words: bytes) -> Reply:
        match verb.upper(), words:
            case b"SETNAME", (name,):
                self.name = _plain(name, b"Client names")
                return OK
            case b"GETNAME", ():
                return self.name or None
            case b"ID", ():
                return self.number
            case b"SETINFO", (option, value) if option.upper() in (b"LIB-NAME", b"LIB-VER"):
                _plain(value, option.upper())
                return OK
        raise UnsupportedError(f"CLIENT {verb!r} {words}")

    def _select(self, number: bytes) -> Reply:
        chosen = integer(number)
        if not 0 <= chosen < self.server.count:
            raise ErrorReply(b"ERR DB index is out of range")
        self._database = chosen
        return OK

    def _info(self, *sections: bytes) -> Reply:
        match [section.lower() for section in sections]:
            case [b"server"]:
                rows = [b"# Server", b"redis_version:" + REDIS_VERSION, b"server_name:valkey"]
                rows += [b"valkey_version:" + VERSION, b"server_mode:standalone"]
                rows += [b"run_id:" + self.server.run_id.encode()]
            case [b"replication"]:
                rows = [b"# Replication", b"role:master", b"connected_slaves:0"]
            case _:
                raise UnsupportedError(f"INFO {sections}")
        return Verbatim(b"".join(row + b"\r\n" for row in rows))

    def _flushall(self, *words: bytes) -> Reply:
        if words not in ((), (b"SYNC",), (b"ASYNC",)):
            raise ErrorReply(SYNTAX)
        self.server.clear()
        return OK

    def _quit(self) -> Reply:
        self.end()
        return OK

    # Messages.

    def _listens(self) -> bool:
        return bool(self._channels[False] or self._channels[True])

    def _subscribe(self, name: bytes, *more: bytes) -> Reply:
        return self._join(b"subscribe", (name, *more), sharded=False)

    def _ssubscribe(self, name: bytes, *more: bytes) -> Reply:
        return self._join(b"ssubscribe", (name, *more), sharded=True)

    def _unsubscribe(self, *names: bytes) -> Reply:
        return self._leave(b"unsubscribe", names, sharded=False)

    def _sunsubscribe(self, *names: bytes) -> Reply:
        return self._leave(b"sunsubscribe", names, sharded=True)

    def _join(self, kind: bytes, names: tuple[bytes, ...], *, sharded: bool) -> Reply:
        mine = self._channels[sharded]
        for channel in names:
            mine[channel] = None
            self.server.channels.add(channel, self, sharded=sharded)
            self._send(encode_push((kind, channel, len(mine)), self._resp3))
        return _NO_REPLY

    def _leave(self, kind: bytes, names: tuple[bytes, ...], *, sharded: bool) -> Reply:
        mine = self._channels[sharded]
        left = names or (*mine,)
        for channel in left:
            mine.pop(channel, None)
            self.server.channels.remove(channel, self, sharded=sharded)
            self._send(encode_push((kind, channel, len(mine)), self._resp3))
        if not left:
            self._send(encode_push((kind, None, len(mine)), self._resp3))
        return _NO_REPLY

    def _pubsub(self, verb: bytes, *channels: bytes) -> Reply:
        if verb.upper() not in (b"NUMSUB", b"SHARDNUMSUB"):
            raise UnsupportedError(f"PUBSUB {verb!r}")
        sharded = verb.upper() == b"SHARDNUMSUB"
        counts = ((each, self.server.channels.count(each, sharded=sharded)) for each in channels)
        return [item for pair in counts for item in pair]


def _key_count(text: bytes, words: tuple[bytes, ...]) -> int:
    count = integer(text)
    if count > len(words):
        raise ErrorReply(b"ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise ErrorReply(b"ERR Number of keys can't be negative")
    return count


def _plain(text: bytes, what: bytes) -> bytes:
    if any(not 33 <= byte <= 126 for byte in text):
        raise ErrorReply(b"ERR %b cannot contain spaces, newlines or special characters." % what)
    return text


#: What works on the session, the scripts or the server.
_OWN: dict[bytes, Command] = {
    name.upper().encode(): described(getattr(Session, f"_{name}"))
    for name in (
        *("eval", "evalsha", "script", "hello", "auth", "client", "ping", "select", "info", "quit"),
        *("subscribe", "ssubscribe", "unsubscribe", "sunsubscribe", "pubsub", "flushall"),
    )
}
