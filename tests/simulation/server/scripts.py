"""Scripts: Lua 5.1, as in the server, and what `redis.call` means in it.

One Lua serves all servers of a process: scripts keep nothing between their runs, because they
can set no global variable. Compiling a text is done once.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

from lupa.lua51 import LuaError, LuaRuntime

from tests.simulation.server import plain_commands, sorted_set_commands
from tests.simulation.server.database import Database
from tests.simulation.server.numbers import LEAST
from tests.simulation.server.registry import COMMANDS, OUT_OF_MEMORY
from tests.simulation.server.replies import (
    ErrorReply,
    ErrorText,
    Map,
    Reply,
    Scored,
    Status,
    UnsupportedError,
    number_text,
)

#: Imported for what they register.
_COMMANDS_OF = (plain_commands, sorted_set_commands)
#: More values than this do not fit on the stack of one call of Lua's.
_MOST_VALUES = 4000

_PRELUDE = rb"""
local call, pcall_, unsupported = ...
local getinfo, find = debug.getinfo, string.find
for _, name in ipairs({'os', 'io', 'package', 'require', 'module', 'python', 'load',
                       'loadfile', 'dofile', 'print', 'newproxy', 'collectgarbage', 'gcinfo'}) do
  _G[name] = nil
end
math.random, math.randomseed, pcall, xpcall = nil, nil, unsupported, unsupported
-- lupa asks for it without a guard before each call, and adds no traceback where it is no table.
debug = false
KEYS, ARGV = {}, {}

local function error_reply(text)
  local rest = find(text, '^%-') and string.sub(text, 2) or text
  return {err = find(rest, ' ', 1, true) and rest or 'ERR ' .. rest}
end
redis = setmetatable({
  call = call, pcall = pcall_, error_reply = error_reply,
  status_reply = function(text) return {ok = text} end,
  -- Everybody may do everything here.
  acl_check_cmd = function() return true end,
}, {__index = function(_, name) unsupported('redis.' .. name) end})

local compile = loadstring
loadstring = nil
setmetatable(_G, {
  __newindex = function() error('Attempt to modify a readonly table', 2) end,
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})

local function run(script, count, ...)
  local keys, args = {...}, {}
  for i = count + 1, #keys do
    args[i - count] = keys[i]
  end
  for i = #keys, count + 1, -1 do
    keys[i] = nil
  end
  KEYS, ARGV = keys, args
  return script()
end
local function run_many(script, keys, args)
  KEYS, ARGV = keys, args
  return script()
end
local function line()
  local level = 2
  local found = getinfo(level, 'l')
  while found and found.currentline < 0 do
    level = level + 1
    found = getinfo(level, 'l')
  end
  return found.currentline
end
return function(text) return compile(text, '@user_script') end, run, run_many, line,
  function(...) return {...} end,
  function(text) return {ok = text} end,
  function(text) return {err = text, ignore_error_stats_update = true} end
"""

_ROW = re.compile(r"user_script:(\d+): ")


@cache
def interpreter() -> Interpreter:
    """Return the interpreter of this process."""
    return Interpreter()


class Interpreter:
    """Runs scripts, one after the other."""

    def __init__(self) -> None:
        self._lua = LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
        )
        prelude = self._lua.execute(_PRELUDE, self._call, self._pcall, self._unsupported)
        self._compile, self._run, self._run_many, self._row = prelude[:4]
        self._array, self._status, self._error = prelude[4:]
        self._table = type(self._array())
        self._scripts: dict[bytes, Any] = {}
        self._db: Database | None = None
        #: Scripts that may take memory on a server that is full.
        self._allowed: set[Any] = set()
        self._full = False

    def compile(self, text: bytes) -> Any:
        """Return a script that can be run."""
        script = self._scripts.get(text)
        if script is None:
            # Its first line is not Lua, but it counts.
            body = b"\n" + text.partition(b"\n")[2] if text.startswith(b"#!") else text
            script = self._compile(body)
            if isinstance(script, tuple):
                why = b"ERR Error compiling script (new function): "
                raise ErrorReply(why + script[1])
            self._scripts[text] = script
            if b"allow-oom" in text.partition(b"\n")[0]:
                self._allowed.add(script)
        return script

    def run(
        self,
        script: Any,
        db: Database,
        count: int,
        words: tuple[bytes, ...],
        *,
        full: bool = False,
    ) -> Reply:
        """Run a script on a database; the first `count` words are its keys.

        On a server that is `full`, commands that take memory are refused, unless the script says
        that it may go on.
        """
        if self._db is not None:
            raise UnsupportedError("a script inside of a script")
        self._db = db
        self._full = full and script not in self._allowed
        try:
            if len(words) <= _MOST_VALUES:
                result = self._run(script, count, *words)
            else:
                table = self._lua.table_from
                result = self._run_many(script, table(words[:count]), table(words[count:]))
        except LuaError as error:
            raise _failure(error) from None
        finally:
            self._db = None
        return self._reply(result)

    # Called by scripts.

    def _call(self, *words: Any) -> Any:
        try:
            return self._value(self._answer(words))
        except ErrorReply as error:
            where = b" script: on @user_script:%d." % self._row()
            raise ErrorReply(error.text + where) from None

    def _pcall(self, *words: Any) -> Any:
        try:
            return self._value(self._answer(words))
        except ErrorReply as error:
            return self._error(error.text)

    def _answer(self, words: tuple[Any, ...]) -> Reply:
        for word in words:
            if type(word) is not bytes:
                words = _as_bytes(words)
                break
        if not words:
            raise ErrorReply(b"ERR Please specify at least one argument for this call")
        found = COMMANDS.get(words[0]) or COMMANDS.get(words[0].upper())
        if found is None:
            raise UnsupportedError(f"{words} in a script")
        if not found.least < len(words) <= found.most + 1:
            raise ErrorReply(b"ERR Wrong number of args calling command from script")
        if self._full and found.takes_memory:
            raise ErrorReply(OUT_OF_MEMORY)
        return found.run(self._db, *words[1:])

    def _value(self, reply: Reply) -> Any:
        """Return what a script is given for a reply."""
        kind = type(reply)
        if kind is int or kind is bytes:
            return reply
        if reply is None:
            return False
        if kind is float:
            return number_text(reply)
        if kind is Status:
            return self._status(bytes(reply))
        if kind is list or kind is Map or kind is Scored:
            items = reply.flat() if kind is Scored else reply
            items = [False if item is None else item for item in items]
            if len(items) <= _MOST_VALUES:
                return self._array(*items)
            return self._lua.table_from(items)
        raise UnsupportedError(f"{reply!r} in a script")

    @staticmethod
    def _unsupported(*words: Any) -> None:
        raise UnsupportedError(f"a script used {words}")

    def _reply(self, value: Any) -> Reply:
        """Return what a client is answered for the result of a script."""
        kind = type(value)
        if value is None or value is False:
            return None
        if kind is int or kind is bytes:
            return value
        if value is True:
            return 1
        if kind is float:
            small = math.isfinite(value) and abs(value) < -LEAST
            return int(value) if small else LEAST
        if kind is not self._table:
            raise UnsupportedError(f"a script returned {value!r}")
        if value[b"err"] is not None:
            return ErrorText(value[b"err"])
        if value[b"ok"] is not None:
            return Status(value[b"ok"])
        found: list[Reply] = []
        while (item := value[len(found) + 1]) is not None:
            found.append(self._reply(item))
        return found


def _as_bytes(words: tuple[Any, ...]) -> tuple[bytes, ...]:
    for word in words:
        if type(word) not in (bytes, int, float):
            raise ErrorReply(b"ERR Command arguments must be strings or integers")
    return tuple(word if type(word) is bytes else number_text(word) for word in words)


def _failure(error: LuaError) -> ErrorReply:
    """Return the reply for an error of Lua's: wrong arithmetic, a global variable."""
    text = str(error)
    where = _ROW.match(text)
    if where is None:
        raise UnsupportedError(text) from error
    return ErrorReply(f"ERR {text} script: on @user_script:{where[1]}.".encode())
