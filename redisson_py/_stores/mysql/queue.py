"""The client queue, as parts of the statements: who waits for a name, first come first served.

It is at the beginning of `refused`, the column of the tombstones, because a decision is made on one
row, and because a table that exists needs no new column:

    <until><patience>=<owner>;<until><patience>=<owner>; <tombstone>  <tombstone>

A client of an older version finds no tombstone of its own there, and keeps what it finds until
`refused_until`, which never comes before the end of an entry. `until` is a moment of the server's
clock in microseconds, 16 digits; `patience` says in milliseconds, 5 digits, how long a free name
waits for that owner once it is the first.

- Whoever finds a free name of which another is the first waiter calls that one: it shortens the
  entry to its patience. After that the entry has ended, so a waiter that is stopped or dead stands
  in nobody's way, and whoever asks next takes the name.
- An entry that is not renewed ends after `WAITER_TIME`.
- The entry of an owner that becomes the first is written, with an `until` that lies `_OPEN_SECONDS`
  further than others: for so long a free name also goes to one that comes and has no entry. So
  short sections follow each other without a poll between them.
- A statement does one thing to the queue. What it leaves undone, the next poll does.
- `refused_until` moves on while somebody waits, each time by more than `WAITER_TIME`, and leaves a
  mark behind the tombstones. The next time those before the mark go, which are old enough then.
"""

from __future__ import annotations

from typing import Final

#: Seconds after which a waiter that has not asked again is no waiter any more.
WAITER_TIME: Final = 20.0
#: It renews its entry when less than this is left: much more than the longest time between polls.
_LEAST_LEFT: Final = 15.0
#: Seconds after one became the first in which a free name goes to whoever comes.
_OPEN_SECONDS: Final = 0.02
#: In this time the first leaves a name that goes from hand to hand to those that come.
_SECTION_SECONDS: Final = 0.005
#: Seconds after the last grant in which nobody looks after the first.
_SILENCE_SECONDS: Final = 0.05
#: Bytes in the column from which on nobody joins: they poll, and join when there is room.
_FULL_BYTES: Final = 32768

#: Characters before the `=` of an entry.
_STAMP: Final = 21
_MICRO: Final = 1_000_000
_MILLI: Final = 1000

NOW: Final = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"

#: The queue without the tombstones, of which the first begins with a space.
QUEUE: Final = "SUBSTRING_INDEX(refused, ' ', 1)"
_TOMBSTONES: Final = f"SUBSTRING(refused, LENGTH({QUEUE}) + 1)"
_SINCE_MARK: Final = f"SUBSTRING_INDEX({_TOMBSTONES}, '|', -1)"

_FIRST_UNTIL: Final = "LEFT(refused, 16)"
# If an older version cut the column off, which was full, its `=` is in another place.
_HAS_FIRST: Final = f"SUBSTRING(refused, {_STAMP + 1}, 1) = '='"
_ANY: Final = "LEFT(refused, 1) > ' '"
_HAS_TWO: Final = "LOCATE(';', refused, LOCATE(';', refused) + 1) > 0"
_WITHOUT_FIRST: Final = "SUBSTRING(refused, LOCATE(';', refused) + 1)"
#: An entry that ends after more than `WAITER_TIME` was written when it became the first.
_OPEN_FOR: Final = f"({_FIRST_UNTIL} - {NOW} - {round(WAITER_TIME * _MICRO)})"
_FIRST: Final = f"{NOW} + {round((WAITER_TIME + _OPEN_SECONDS) * _MICRO)}"
_NEXT_FIRST: Final = (
    f"IF(SUBSTRING({_WITHOUT_FIRST}, {_STAMP + 1}, 1) = '=' AND LEFT({_WITHOUT_FIRST}, 16) > {NOW},"
    f" CONCAT(LEAST({_FIRST}, refused_until), SUBSTRING({_WITHOUT_FIRST}, 17)), {_WITHOUT_FIRST})"
)
_END_OF_CALL: Final = f"{NOW} + CAST(SUBSTRING(refused, 17, 5) AS SIGNED) * {_MILLI}"


def text(value: str) -> str:
    """Return text as SQL."""
    return f"_ascii x'{value.encode('ascii').hex()}'"


def tombstone(owner: str) -> str:
    """Return the tombstone of an owner, between spaces, which no owner has in it."""
    return text(f" {owner} ")


def is_reserved(owner: str) -> str:
    """Return whether another than this owner is the first waiter, and may still ask."""
    return f"COALESCE({_HAS_FIRST} AND {_FIRST_UNTIL} > {NOW} AND {_at(owner)} <> {_STAMP + 1}, 0)"


def is_open(owner: str) -> str:
    """Return whether a free name goes to an owner that comes now, though others may wait."""
    mine = f"LOCATE({text(owner)}, refused)"
    return f"(refused IS NULL OR {_HAS_FIRST} AND {_OPEN_FOR} > 0 AND {mine} = 0)"


def open_for(owner: str) -> str:
    """Return for how many microseconds others may go before an owner that is the first."""
    return f"IF({_HAS_FIRST} AND {_at(owner)} = {_STAMP + 1}, {_OPEN_FOR}, 0)"


def position(owner: str) -> str:
    """Return how many waiters come before an owner; null: it is not in the queue."""
    before = f"LEFT(refused, {_at(owner)})"
    count = f"LENGTH({before}) - LENGTH(REPLACE({before}, ';', ''))"
    return f"IF({_at(owner)} > 0, {count}, NULL)"


def without(column: str, owner: str) -> str:
    """Return a column without the entry of an owner."""
    length = _STAMP + len(_waiter(owner))
    return f"INSERT({column}, {_at(owner, column)} - {_STAMP}, {length}, '')"


def is_waiter(owner: str) -> str:
    """Return whether an owner is in the queue."""
    return f"{_at(owner)} > {_STAMP}"


def after_ask(owner: str, patience: tuple[float, float] | None) -> str:
    """Return the assignments that an ask ends with, when its owner holds the name or does not.

    With a patience the owner joins the queue, or stays in its place, if it does not. The first one
    is for who joins as one of the first two, the second one for all others.
    """
    holds = f"owner <=> {text(owner)} AND expires > {NOW}"
    nothing = f"refused IS NULL OR refused_until <= {NOW}"
    reserved, mine = is_reserved(owner), _at(owner)
    # The first was this owner, or is another whose entry has ended.
    left = without(f"IF({_ANY}, {_NEXT_FIRST}, refused)", owner)
    called = (
        f"IF(expires <= {NOW} AND {reserved} AND {_FIRST_UNTIL} > {_END_OF_CALL},"
        f" CONCAT({_END_OF_CALL}, SUBSTRING(refused, 17)), refused)"
    )
    if patience is None:
        return f"""\
  refused = NULLIF(CASE
    WHEN {nothing} THEN ''
    WHEN {holds} THEN IF({reserved}, refused, {left})
    WHEN {_has_lapsed(owner)} THEN {_WITHOUT_FIRST}
    ELSE {called} END, '')"""
    fast, usual = map(_milliseconds, patience)
    until, first_until, entry = _in(WAITER_TIME), _FIRST, text(_waiter(owner))
    joins = f"{until}, IF({_HAS_TWO}, {usual}, {fast}), {entry}"
    return f"""\
  refused = NULLIF(CASE
    WHEN {nothing} THEN IF({holds}, '', CONCAT({first_until}, {fast}, {entry}))
    WHEN {holds} THEN IF({reserved}, refused, {left})
    WHEN refused_until < {_in(WAITER_TIME)} THEN
      CONCAT({QUEUE}, {_SINCE_MARK}, IF({_SINCE_MARK} = '', '', ' |'))
    WHEN {_has_lapsed(owner)} THEN {_WITHOUT_FIRST}
    WHEN LOCATE({tombstone(owner)}, refused) > 0 THEN refused
    WHEN {mine} = 0 THEN IF(LENGTH(refused) > {_FULL_BYTES}, {called},
      CONCAT(SUBSTRING_INDEX({called}, ' ', 1), {joins}, {_TOMBSTONES}))
    WHEN {_is_due(owner, patience[1])} THEN
      INSERT(refused, {mine} - {_STAMP}, {_STAMP}, CONCAT({until}, {usual}))
    ELSE {called} END, ''),
  refused_until = IF(
    refused IS NOT NULL AND refused_until < {_in(WAITER_TIME)} AND IF({holds}, 0, 1),
    {_in(2 * WAITER_TIME)}, refused_until)"""


def calls_for_action(owner: str, patience: float) -> str:
    """Return whether an ask of a waiter with this patience would change anything.

    So it does on a server that is read-only: it is refused there.
    """
    called = f"{_FIRST_UNTIL} > {NOW} AND {_FIRST_UNTIL} <= {_END_OF_CALL}"
    first = f"{_OPEN_FOR} > 0 AND token > {_in(-_SECTION_SECONDS)}"
    others = f"{called} OR token > {_in(-_SILENCE_SECONDS)}"
    kept = f"{_HAS_FIRST} AND IF({_at(owner)} = {_STAMP + 1}, {first}, {others})"
    return (
        f"expires <= {NOW} AND COALESCE({kept}, 0) = 0 OR COALESCE({_at(owner)}, 0) <= {_STAMP}"
        f" OR {_has_lapsed(owner)} OR {_is_due(owner, patience)}"
        " OR @@GLOBAL.read_only OR @@GLOBAL.innodb_read_only"
    )


def waiters(column: str | None, present: int) -> tuple[str, ...]:
    """Return the owners that wait at a moment of the server's clock, in order."""
    entries = (column or "").partition(" ")[0].split(";")
    found = (each.partition("=") for each in entries)
    return tuple(
        owner for stamp, _, owner in found if len(stamp) == _STAMP and int(stamp[:16]) > present
    )


def _in(seconds: float) -> str:
    return f"{NOW} {round(seconds * _MICRO):+}"


def _has_lapsed(owner: str) -> str:
    """Return whether another than this owner is the first, and its entry has ended."""
    return f"{_ANY} AND {is_reserved(owner)} = 0 AND {_at(owner)} <> {_STAMP + 1}"


def _is_due(owner: str, patience: float) -> str:
    """Return whether the entry of an owner ends soon, or has another patience."""
    return (
        f"SUBSTRING(refused, {_at(owner)} - {_STAMP}, 16) < {_in(_LEAST_LEFT)}"
        f" OR SUBSTRING(refused, {_at(owner)} - 5, 5) <> {_milliseconds(patience)}"
    )


def _milliseconds(seconds: float) -> str:
    return f"'{round(seconds * _MILLI):05}'"


def _waiter(owner: str) -> str:
    return f"={owner};"


def _at(owner: str, column: str = "refused") -> str:
    return f"LOCATE({text(_waiter(owner))}, {column})"
