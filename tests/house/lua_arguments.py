"""What scripts give to Redis: which arguments of their calls are Lua numbers.

Redis 7.2.0 to 7.2.4 and Valkey 7.2.4 and 7.2.5 write a Lua number that can be divided by 10^8 in
scientific notation (redis#13113): PEXPIRE is told "1e+08" and refuses. So scripts give text, and
numbers only where they are written out in the script. ZADD reads its scores either way.

This reads the small part of Lua that our scripts are written in: one statement a line, or one that
goes on to the end of its parentheses. What it does not know counts as a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

CALL = re.compile(r"\bredis\.p?call\(")
#: Functions that return text only.
TEXT = {"string.format", "string.match", "string.sub", "struct.pack"}
TEXT |= {"permit_id", "reader_key", "readers_index"}
#: What of several returned values is text; all of the others are numbers.
SEVERAL = {"expired": (0,), "front": (0, 4), "living_head": (0, 2), "reader_keys": (0,)}
#: Commands that reply with a number.
COUNTING = {"EXISTS", "HLEN", "INCRBY", "LLEN", "LPOS", "PTTL", "PUBLISH", "ZCARD"}
#: Parameters of functions that are text: keys, channels, fields.
_KEYS = ("arrivals", "barrier", "channel", "counter", "counts", "key", "lock", "permits", "queue")
_FIELDS = (
    "after",
    "asks",
    "client",
    "field",
    "how",
    "ids",
    "leaver",
    "leaves",
    "member",
    "over",
    "owner",
    "waiter",
)
_COUNTERS = ("client_permits", "client_value", "value")
PARAMETERS = {
    *_KEYS,
    *_FIELDS,
    *_COUNTERS,
    "clients",
    "message",
    "timeouts",
    "tombstone",
    "total",
    "waiters",
}
#: Places in a queue, which is never so long; they are looked at one by one.
POSITIONS = re.compile(r"(?:place|rank) [-+] \w+|#dead \+ 1")
_ASSIGNMENT = re.compile(
    r"^[ \t]*(?:local )?((?:[a-z_]\w*(?:\[[^=\n]*\])?)(?:, [a-z_]\w*)*) = ", re.MULTILINE
)
_LOOP = re.compile(r"\bfor (\w+)(?:, (\w+) in |( = ))")
_FUNCTION = re.compile(r"\bfunction (\w+)\(([^)]*)\)")
_LITERAL = re.compile(r"-?\d{1,4}")
_STRING = re.compile(r"'[^']*'")


@dataclass(frozen=True)
class Argument:
    """An argument of a call that is not a key's or a field's name in quotes.

    Attributes:
        row: Where the call begins.
        text: The argument.
        start: Where it stands in the script.
    """

    row: int
    text: str
    start: int


def numbers(script: str) -> list[Argument]:
    """Return the arguments that are, or may be, Lua numbers."""
    lua = _without_comments(script)
    names = _Names(lua)
    found = []
    for start, words in _calls(lua):
        row = lua.count("\n", 0, start) + 1
        for position, text in words:
            allowed = _LITERAL.fullmatch(text) or POSITIONS.fullmatch(text)
            if not allowed and not names.is_text(text, start):
                found.append(Argument(row, text, position))
    return found


def _without_comments(lua: str) -> str:
    """Blank out comments, so that places stay the same."""
    return re.sub(r"(?m)--.*$|^#!.*$", lambda comment: " " * len(comment[0]), lua)


def _calls(lua: str) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    for call in CALL.finditer(lua):
        command, *words = _split(lua, call.end(), _closing(lua, call.end()))
        if command[1] != "'ZADD'":
            yield call.start(), words


class _Names:
    """What the names of a script stand for, by the place of the last assignment before."""

    def __init__(self, lua: str) -> None:
        #: Place, name, and what it gets: text of an expression, or whether that is text.
        self._given: list[tuple[int, str, str | bool]] = []
        for found in _ASSIGNMENT.finditer(lua):
            targets = [name.strip() for name in found[1].split(", ")]
            values = [text for _, text in _split(lua, found.end(), _end_of_row(lua, found.end()))]
            for number, target in enumerate(targets):
                name = re.sub(r"\[.*", "[]", target)
                self._given.append((found.start(), name, self._value(values, number, len(targets))))
        for found in _LOOP.finditer(lua):
            self._given.append((found.start(), found[1], not found[3] and found[1] == "_"))
            if found[2]:
                self._given.append((found.start(), found[2], True))
        for found in _FUNCTION.finditer(lua):
            for name in filter(None, found[2].split(", ")):
                self._given.append((found.start(), name, name in PARAMETERS))
        self._given.sort(key=lambda each: each[0])

    @staticmethod
    def _value(values: list[str], number: int, targets: int) -> str | bool:
        if len(values) == targets:
            return values[number]
        name = values[0].partition("(")[0]
        if name in SEVERAL:
            return number in SEVERAL[name]
        # The parts of an array in a reply, or of a text.
        return name in ("unpack", "string.match")

    def is_text(self, expression: str, position: int) -> bool:
        """Return whether an expression at this place of the script is never a number."""
        return all(
            self._operand(_split_words(choice, " and ")[-1], position)
            for choice in _split_words(expression, " or ")
        )

    def _operand(self, text: str, position: int) -> bool:
        text = text.strip()
        if _STRING.fullmatch(text) or text in ("nil", "false", "true", "{}"):
            return True
        parts = _split_words(text, "..")
        if len(parts) > 1:
            return all(self._operand(part, position) for part in parts)
        if re.match(r"[-#\d]", text) or any(
            len(_split_words(text, sign)) > 1 for sign in (" + ", " - ", " * ", " / ")
        ):
            return False
        called = re.match(r"([\w.]+)\((?:'([A-Z]+)')?", text)
        if called and _closing(text, text.index("(") + 1) == len(text) - 1:
            return self._returns(called[1], called[2], text, position)
        if re.match(r"(KEYS|ARGV)\[", text):
            return True
        name = re.sub(r"\[.*\]$", "", text)
        if name != text:
            # The elements of a table are what was put into it, or the words of a reply.
            return self._last(name + "[]", position, True)
        return self._last(name, position, False)

    def _returns(self, function: str, command: str | None, text: str, position: int) -> bool:
        if function in ("redis.call", "redis.pcall"):
            return command not in COUNTING
        if function == "unpack":
            table = text[len("unpack(") : -1]
            return self.is_text(table, position) and self._all(table + "[]", position)
        return function in TEXT

    def _all(self, name: str, position: int) -> bool:
        given = [each for each in self._given if each[1] == name and each[0] < position]
        return all(self._meaning(each) for each in given)

    def _last(self, name: str, position: int, unknown: bool) -> bool:
        given = [each for each in self._given if each[1] == name and each[0] < position]
        return self._meaning(given[-1]) if given else unknown

    def _meaning(self, given: tuple[int, str, str | bool]) -> bool:
        position, _, value = given
        return value if isinstance(value, bool) else self.is_text(value, position)


# Reading.


def _closing(lua: str, position: int) -> int:
    """Return where the parenthesis that opened before `position` is closed."""
    depth, quoted = 1, False
    for at in range(position, len(lua)):
        if lua[at] == "'":
            quoted = not quoted
        elif not quoted and lua[at] in "([{":
            depth += 1
        elif not quoted and lua[at] in ")]}":
            depth -= 1
            if depth == 0:
                return at
    raise ValueError(f"nothing closes {lua[position : position + 40]!r}")


def _end_of_row(lua: str, position: int) -> int:
    """Return where the line ends, or the one on which its parentheses are closed."""
    depth = 0
    for at in range(position, len(lua)):
        depth += (lua[at] in "([{") - (lua[at] in ")]}")
        if lua[at] == "\n" and depth <= 0 and not re.match(r"\s+(and|or)\b", lua[at:]):
            return at
    return len(lua)


def _split(lua: str, start: int, end: int) -> list[tuple[int, str]]:
    """Return the parts between commas with their places."""
    parts, position = [], start
    for text in _split_words(lua[start:end], ","):
        indent = len(text) - len(text.lstrip())
        parts.append((position + indent, text.strip()))
        position += len(text) + 1
    return parts


def _split_words(text: str, word: str) -> list[str]:
    """Split where `word` stands outside of parentheses and quotes."""
    parts, depth, quoted, begin, at = [], 0, False, 0, 0
    while at < len(text):
        letter = text[at]
        if letter == "'":
            quoted = not quoted
        elif not quoted and letter in "([{":
            depth += 1
        elif not quoted and letter in ")]}":
            depth -= 1
        elif not quoted and depth == 0 and re.sub(r"\s", " ", text[at : at + len(word)]) == word:
            parts.append(text[begin:at])
            begin = at = at + len(word)
            continue
        at += 1
    return [*parts, text[begin:]]
