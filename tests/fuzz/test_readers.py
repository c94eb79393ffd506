"""Whatever a server answers, what reads it raises an error of ours, or nothing."""

from __future__ import annotations

import re
from random import Random

import hiredis
import pytest

from redisson_py._redis.limits import (
    MOST_ELEMENTS,
    MOST_REPLY_BYTES,
    MOST_UNENDED_BYTES,
    BoundedReader,
    TooLargeError,
)
from redisson_py._redis.scripts.shapes import array, read_shape, text, whole
from tests.fuzz.decoders import decode_all, read_all
from tests.fuzz.values import BROKEN, value
from tests.support.fake_peer import bulk

_NOTHING = object()


class CountingReader:
    """A reader of hiredis that notes what it was given."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self.gets = self._reader.gets
        self.has_data = self._reader.has_data
        self.given: list[bytes] = []

    def feed(self, data: bytes) -> None:
        self.given.append(data)
        self._reader.feed(data)


def bounded() -> BoundedReader:
    return BoundedReader(hiredis.Reader(notEnoughData=_NOTHING), _NOTHING)


def read(reader: BoundedReader, data: bytes, got: list[str]) -> None:
    reader.feed(data)
    while (reply := reader.gets()) is not _NOTHING:
        got.append(repr(reply))


@pytest.mark.parametrize("seed", range(20))
def test_any_value_is_read_or_refused(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        read_all(random)


@pytest.mark.parametrize("seed", range(20))
def test_replies_that_are_passed_on_can_be_decoded(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        decode_all(random)


@pytest.mark.parametrize("seed", range(50))
def test_cut_at_any_point_replies_are_the_same_and_a_huge_array_is_refused(seed: int) -> None:
    random = Random(seed)
    inside = b"x\r\n*12345678\r\n>99999999\r\n" * 5
    parts = [value(random) for _ in range(10)] + [bulk(inside)]
    random.shuffle(parts)
    said = b"".join(parts)
    whole_reader = hiredis.Reader(notEnoughData=_NOTHING)
    whole_reader.feed(said)
    wanted = [repr(whole_reader.gets()) for _ in parts]
    said += b"%c%d\r\n" % (random.choice(b"*%~>|"), random.randrange(10**6, 10**12))
    reader = bounded()
    got: list[str] = []
    with pytest.raises(TooLargeError):
        while said:
            length = random.choice((1, 2, 3, 7, 30, 500))
            read(reader, said[:length], got)
            said = said[length:]
    assert got == wanted


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"$16777300\r\n", b"x" * 16384),
        (b"*999999\r\n", b"$20\r\n%s\r\n" % (b"x" * 20) * 1000),
        (b"*1\r\n*900000\r\n", b"*1\r\n$20\r\n%s\r\n" % (b"x" * 20) * 1000),
    ],
)
def test_a_reply_without_an_end_is_not_collected_for_ever(begin: bytes, more: bytes) -> None:
    reader, fed, got = bounded(), 0, list[str]()
    read(reader, begin, got)
    with pytest.raises(TooLargeError):
        while fed < 2 * MOST_REPLY_BYTES:
            read(reader, more, got)
            fed += len(more)
    assert MOST_REPLY_BYTES - len(more) - len(begin) <= fed <= MOST_REPLY_BYTES
    assert not got


@pytest.mark.parametrize("more", [b"x" * 100, b"x" * 99 + b"\n", b"x" * 99 + b"\r", b"7" * 4000])
@pytest.mark.parametrize("begin", [b"+", b"-ERR ", b"$", b"*2\r\n+a\r\n:", b"$1\r\na\r\n("])
def test_a_row_without_an_end_is_refused_and_never_searched(begin: bytes, more: bytes) -> None:
    counting, got, fed = CountingReader(), list[str](), 0
    reader = BoundedReader(counting, _NOTHING)
    read(reader, begin, got)
    head, _, row = begin.rpartition(b"\r\n")
    begins = re.escape(repr((row + more)[:30])[2:-1])
    with pytest.raises(
        TooLargeError, match=f"a line of more than {MOST_UNENDED_BYTES} bytes .* b'{begins}"
    ):
        while fed < 2 * MOST_UNENDED_BYTES:
            read(reader, more, got)
            fed += len(more)
    assert MOST_UNENDED_BYTES - len(more) - len(row) < fed <= MOST_UNENDED_BYTES
    # hiredis searches a line from its begin each time that it is given more of it.
    assert b"".join(counting.given) == (head + b"\r\n" if head else b"")


def test_a_long_text_without_a_row_end_is_read() -> None:
    counting, got = CountingReader(), list[str]()
    reader = BoundedReader(counting, _NOTHING)
    said = bulk(b"x" * 20 * MOST_UNENDED_BYTES)
    for start in range(0, len(said), 1000):
        read(reader, said[start : start + 1000], got)
    assert got == [repr(b"x" * 20 * MOST_UNENDED_BYTES)]
    assert len(counting.given) == 2


@pytest.mark.parametrize("said", BROKEN[:6])
def test_a_huge_array_is_refused_before_room_is_made_for_it(said: bytes) -> None:
    with pytest.raises(TooLargeError):
        read(bounded(), said, [])


@pytest.mark.parametrize("kind", [b"*", b"~", b">", b"|", b"%"])
@pytest.mark.parametrize("length", [1, 7, 65536])
def test_huge_arrays_inside_each_other_are_refused_as_one(kind: bytes, length: int) -> None:
    # Nine thousand bytes; pushes that are read cost eight gigabytes.
    said = (kind + b"999999\r\n") * 1000
    reader, got = bounded(), list[str]()
    with pytest.raises(TooLargeError, match="elements"):
        for start in range(0, len(said), length):
            read(reader, said[start : start + length], got)
    assert not got


def test_large_replies_one_after_the_other_are_not_counted_together() -> None:
    reader, got = bounded(), list[str]()
    large = b"*100000\r\n" + b"_\r\n" * 100_000
    for _ in range(2 * MOST_ELEMENTS // 100_000):
        for start in range(0, len(large), 65536):
            read(reader, large[start : start + 65536], got)
    assert len(got) == 2 * MOST_ELEMENTS // 100_000


@pytest.mark.parametrize(
    ("returns", "nil", "numbers", "others"),
    [
        ("nil = granted | int >= 0 = busy | -1 = no lease", True, (-1, 0, 2**63), (-2,)),
        ("int > 0 = left | -2 = gone", False, (1, -2), (0, -1)),
        ("int = what is left", False, (-(2**63), 0), ()),
        ("1 = set | 0 = not | 2 = superseded", False, (0, 1, 2), (-1, 3)),
    ],
)
def test_a_header_says_what_numbers_a_reply_may_be(
    returns: str, nil: bool, numbers: tuple[int, ...], others: tuple[int, ...]
) -> None:
    shape = read_shape(returns)
    assert shape.may_be_nil == nil
    for number in (*numbers, *others):
        assert (number >= shape.least or number in shape.literals) == (number in numbers)


def test_rows_of_an_array_are_complete_and_of_their_types() -> None:
    takes = array(whole(-2), rows=(text, whole()))
    assert takes([-2])
    assert takes([5, b"a", 1, b"b", 2])
    for bad in ([], [-3], [5, b"a"], [5, 1, b"a"], [True], [5, b"a", 1.0], [None, b"a", 1]):
        assert not takes(bad), bad
