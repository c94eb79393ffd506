"""One word per thing: identifiers that have a better name here are refused (design vocabulary)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import repository

#: Refused in identifiers, with the word to use. `extend` is a verb of the API, and `try`,
#: `success` or `event` have too many other meanings to be refused.
REFUSED = {
    "ttl": "lease, remaining",
    "expiry": "lease, ends_at",
    "refresh": "renew",
    "heartbeat": "renew",
    "keepalive": "renew",
    "keep_alive": "renew",
    "ticket": "permit, place",
    "thread_id": "owner",
    "lock_count": "hold count",
    "stolen": "lost",
    "rollback": "undo",
    "cleanup": "undo",
    "notification": "wake-up",
    "subscriber": "waiter, seat",
    "idempotency": "receipt",
    "quorum_size": "quorum",
    "blacklist": "refused",
    "whitelist": "allowed",
}
_WORD = re.compile("|".join(rf"(?:^|_){word}s?(?:_|$)" for word in REFUSED))
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

#: The door to redis-py uses redis-py's words; the helpers for tests speak of the network.
_ELSEWHERE = ("redisson_py/_redis.py", "redisson_py/testing/")


def identifiers(source: str) -> Iterator[tuple[int, str]]:
    """Yield every name that a Python text gives to something, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg() if node.arg:
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias() if node.asname:
                yield 0, node.asname


def lua_identifiers(source: str) -> Iterator[tuple[int, str]]:
    """Yield every name in a Lua text that is neither text nor a command, with its line."""
    for number, line in enumerate(source.splitlines(), 1):
        declared = line.startswith("--! ") and not line.startswith(("--! returns", "--! retry"))
        code = line if declared else re.sub(r"'[^']*'|--.*", "", line)
        yield from ((number, word) for word in re.findall(r"[A-Za-z_]\w*", code))


def refused(name: str) -> bool:
    return bool(_WORD.search(_CAMEL.sub("_", name).lower()))


def findings(path: Path) -> list[str]:
    text = path.read_text("utf-8")
    names = lua_identifiers(text) if path.suffix == ".lua" else identifiers(text)
    return [f"{repository.name(path)}:{line}: {name}" for line, name in names if refused(name)]


def test_no_identifier_is_refused() -> None:
    found = [
        finding
        for path in repository.of_kind(".py", "redisson_py") + repository.of_kind(".lua", "lua")
        if not repository.name(path).startswith(_ELSEWHERE)
        for finding in findings(path)
    ]
    assert not found, f"{found}; use instead: {REFUSED}"


@pytest.mark.parametrize(
    "name", ["ttl", "lock_ttl", "ttl_ms", "TTL", "refreshTicket", "Heartbeat", "keep_alive"]
)
def test_refused_words_are_found_inside_names(name: str) -> None:
    assert refused(name)


@pytest.mark.parametrize("name", ["throttle", "battle", "extend", "renew", "settle", "lease_time"])
def test_other_words_are_not(name: str) -> None:
    assert not refused(name)


def test_names_are_found_wherever_they_are_given() -> None:
    source = "class A:\n  def b(self, *c, d: int = 1):\n    self.e = f = 1\nimport x as g\n"
    assert {name for _, name in identifiers(source)} == {*"Abcdefg", "self"}
    lua = "--! args ttl:int\nlocal lease = 'ttl' -- ttl\nredis.call('PTTL', lease)\n"
    assert [name for _, name in lua_identifiers(lua) if refused(name)] == ["ttl"]
