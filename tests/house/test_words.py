"""One word per thing, and plain words in every text that a user sees.

Identifiers that have a better name here are refused (design vocabulary), and so are phrases that a
native engineer would not write. What holds for every server is not written in the words of one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.house import prose
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

#: Refused in names of tests and programs too: each of these meant several things.
VAGUE = {
    "over": "ended, overdue, settled",
    "rest": "remaining, others",
    "place": "position, index",
    "turn": "head start, iteration, round",
    "line": "local queue, client queue; of a text: row",
    "told": "reported, notified",
    "mind": "watch",
    "trouble": "failure",
    "lobby": "unrouted",
    "doubt": "suspected, uncertain",
    "anywhere": "on any store, at any point",
}
_VAGUE = re.compile("|".join(rf"(?:^|_){word}s?(?=_|$)" for word in VAGUE))
#: The field's terms that have one of them as a part.
_TERMS = re.compile(
    r"(?:fail|hand|pass|take|taken|taking|took|handed|handing|passed)(?:s|es)?_over|command_line"
)
#: Names that users write.
_PUBLIC = {
    "redisson_py/_options.py": {"turn"},
    "redisson_py/_stores/options.py": {"turn"},
    "redisson_py/sync/_options.py": {"turn"},
    "redisson_py/sync/_store_options.py": {"turn"},
    "redisson_py/testing/_topologies/cluster.py": {"place"},
}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

#: The door to redis-py uses redis-py's words; the helpers for tests speak of the network.
_ELSEWHERE = ("redisson_py/_redis/redis_py.py", "redisson_py/testing/")


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
            case ast.ExceptHandler() | ast.MatchAs() if node.name:
                yield node.lineno, node.name


def lua_identifiers(source: str) -> Iterator[tuple[int, str]]:
    """Yield every name in a Lua text that is neither text nor a command, with its line."""
    for number, row in enumerate(source.splitlines(), 1):
        declared = row.startswith("--! ") and not row.startswith(("--! returns", "--! retry"))
        code = row if declared else re.sub(r"'[^']*'|--.*", "", row)
        yield from ((number, word) for word in re.findall(r"[A-Za-z_]\w*", code))


def refused(name: str) -> bool:
    return bool(_WORD.search(_CAMEL.sub("_", name).lower()))


def vague(name: str) -> bool:
    return bool(_VAGUE.search(_TERMS.sub("", _CAMEL.sub("_", name).lower())))


def findings(path: Path) -> list[str]:
    text = path.read_text("utf-8")
    names = lua_identifiers(text) if path.suffix == ".lua" else identifiers(text)
    return [f"{repository.name(path)}:{row}: {name}" for row, name in names if refused(name)]


def test_no_identifier_is_refused() -> None:
    found = [
        finding
        for path in repository.of_kind(".py", "redisson_py") + repository.of_kind(".lua", "lua")
        if not repository.name(path).startswith(_ELSEWHERE)
        for finding in findings(path)
    ]
    assert not found, f"{found}; use instead: {REFUSED}"


def test_no_name_is_vague() -> None:
    """Not in Lua: a script's text is deployed under its sha."""
    found = [
        f"{repository.name(path)}:{row}: {name}"
        for path in repository.of_kind(".py", "redisson_py", "tests", "benchmarks", "examples")
        for row, name in [(0, path.stem), *identifiers(path.read_text("utf-8"))]
        if vague(name) and name not in _PUBLIC.get(repository.name(path), ())
    ]
    assert not found, f"{found}; use instead: {VAGUE}"


#: What a native engineer would not write, with what to write. No text for users has it.
UNPLAIN = {
    r"told": "who says it? says, reports, raises, logs",
    r"minds?": "keeps, watches, matters",
    r"anew": "again, new",
    r"mend(?:s|ed|ing)?": "repair, fix",
    r"for ever": "forever",
    r"for want of": "without, because there is no",
    r"(?:at most|after|every|for|of|than) so many": "N, the number",
    r"by (?:it|them)sel(?:f|ves)": "alone; or a verb: it expires",
    r"(?:is|are|was|were|be|been) had": "there is, has",
    r"had not (?:\{\}|\d+)": "did not have",
    r"(?:is|are|was|were) to be had": "there is, can be acquired",
    r"what is to": "name it",
    r"what (?:is no|nobody)": "name it",
}
_UNPLAIN = re.compile(rf"\b(?:{'|'.join(UNPLAIN)})(?!\w)".replace(" ", r"\s+"), re.IGNORECASE)


def unplain(text: str) -> list[tuple[int, str]]:
    """Return the unplain words in a text, each with the number of its line in it, from 0."""
    return [
        (text.count("\n", 0, found.start()), " ".join(found.group().split()))
        for found in _UNPLAIN.finditer(text)
    ]


def test_texts_for_users_are_plain() -> None:
    found = [
        f"{each.path}:{each.row + row}: {words}"
        for each in prose.all_texts()
        for row, words in unplain(each.text)
    ]
    assert not found, "\n".join([*found, f"use instead: {UNPLAIN}"])


def test_the_words_are_found() -> None:
    assert [refused(name) for name in ("lock_ttl", "refreshTicket", "throttle")] == [1, 1, 0]
    assert [vague(name) for name in ("isOver", "take_over", "places", "online")] == [1, 0, 1, 0]
    assert [bool(unplain(text)) for text in ("waits for\n  ever", "recommend")] == [1, 0]


#: How Redis is asked. `channel` is not here: semaphores, latches and barriers show theirs.
_HOW_REDIS_IS_ASKED = re.compile(
    r"tombstones?|versions?|(?:un)?pack(?:s|ed|ing)?|scripts?|lua|evalsha|noscript|moved"
    r"|[a-z]*subscri(?:bes?|bed|bing|bers?|ptions?)|publish(?:es|ed|ing)?|pubsub|pipelines?"
    r"|replica(?:s|tion)?|routers?|streams?|hiredis"
)

#: What is the same for every server, and what users of Redis meet first.
_SHARED_ROOMS = ("_engine", "barriers", "composite", "locks", "semaphores")

#: The version of Python is nobody's hold.
_PYTHONS = "version_info"


def words(text: str) -> list[str]:
    """Return the words of a text; an identifier has several."""
    return re.findall("[a-z]+", _CAMEL.sub("_", text.replace(_PYTHONS, "")).lower())


def code_words(source: str) -> Iterator[str]:
    """Yield every word of the names and literals of a Python text: no docstring, no comment."""
    tree = ast.parse(source)
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, str | bytes) and node not in docstrings:
                yield from words(value if isinstance(value, str) else value.decode("latin-1"))


def how_redis_is_asked(words: Iterable[str]) -> set[str]:
    return {word for word in words if _HOW_REDIS_IS_ASKED.fullmatch(word)}


@pytest.mark.parametrize("room", _SHARED_ROOMS)
def test_no_shared_code_says_how_redis_is_asked(room: str) -> None:
    found = {
        repository.name(path): names
        for path in repository.of_kind(".py", f"redisson_py/{room}")
        if (names := how_redis_is_asked(code_words(path.read_text("utf-8"))))
    }
    assert not found


def test_nor_do_the_comments_of_the_engine() -> None:
    found = {
        repository.name(path): names
        for path in repository.of_kind(".py", "redisson_py/_engine")
        # In prose, things move.
        if (names := how_redis_is_asked(words(path.read_text("utf-8"))) - {"moved"})
    }
    assert not found


def test_what_is_code_is_known() -> None:
    source = '"""A stream."""\nfoo = router.SubscribeTo(b"MOVED", script_of=f"{bar}")  # replica\n'
    assert set(code_words(source)) == {
        "foo",
        "router",
        *("subscribe", "to", "moved"),
        *("script", "of", "bar"),
    }
