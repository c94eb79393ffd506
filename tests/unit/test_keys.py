"""Names become keys as Redisson makes them, and what is no name is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisson_py import _keys
from redisson_py._keys import LONGEST_NAME_BYTES, Names, key_slot

KEYS = st.binary(min_size=1, max_size=40)
BRACED = st.text("ab{}:", min_size=1, max_size=12).map(str.encode)
OWNER = "01234567-89ab-cdef-0123-456789abcdef:17"


def derived(key: bytes) -> list[bytes]:
    return [_keys.lock_channel(key), _keys.fencing_token(key), _keys.tombstone(key, OWNER)]


@pytest.mark.parametrize(
    ("key", "channel", "token", "suffixed"),
    [
        (b"lk", b"redisson_lock__channel:{lk}", b"redisson_lock_token:{lk}", b"{lk}:s"),
        (b"{t}lk", b"redisson_lock__channel:{t}lk", b"redisson_lock_token:{t}lk", b"{t}lk:s"),
        (b"a{", b"redisson_lock__channel:a{", b"redisson_lock_token:a{", b"a{:s"),
        (b"a}b", b"redisson_lock__channel:{a}b}", b"redisson_lock_token:{a}b}", b"{a}b}:s"),
        (b"\xff\x00", b"redisson_lock__channel:{\xff\x00}", b"redisson_lock_token:{\xff\x00}",
         b"{\xff\x00}:s"),
    ],
)  # fmt: skip
def test_derived_names_follow_redisson_to_the_letter(
    key: bytes, channel: bytes, token: bytes, suffixed: bytes
) -> None:
    assert _keys.lock_channel(key) == channel
    assert _keys.fencing_token(key) == token
    assert _keys.suffixed(key, b"s") == suffixed


@given(key=st.one_of(KEYS, BRACED))
def test_a_key_and_its_derived_names_are_all_different(key: bytes) -> None:
    names = [key, *derived(key)]
    assert len({*names}) == len(names)


@given(one=BRACED, other=BRACED)
def test_the_tombstones_of_two_owners_differ(one: bytes, other: bytes) -> None:
    assert _keys.tombstone(one, "c:1") != _keys.tombstone(one, "c:2")
    if one != other and b"{" not in one + other:
        assert _keys.tombstone(one, "c:1") != _keys.tombstone(other, "c:1")


def test_the_description_of_a_client_lies_under_the_prefix() -> None:
    assert _keys.client_description("app:", "id") == b"app:redisson_py:client:id"


@pytest.mark.parametrize("name", ["a\0b", "a\r\nb", "\N{PILE OF POO}", " ", b"\0", b"\r\n", "{"])
def test_whatever_fits_in_a_redis_key_is_a_name(name: str | bytes) -> None:
    assert Names().key(name) == (name if isinstance(name, bytes) else name.encode())


@pytest.mark.parametrize("name", [5, 0, None, True, 1.5, bytearray(b"x"), memoryview(b"x"), ["x"]])
def test_other_types_are_no_names(name: object) -> None:
    with pytest.raises(TypeError, match="name must be str or bytes"):
        Names().key(cast("Any", name))


@pytest.mark.parametrize("name", ["", b"", "\ud800", "a\udfffb"])
def test_empty_or_unencodable_names_are_refused(name: str | bytes) -> None:
    with pytest.raises(ValueError, match="name"):
        Names().key(name)


@pytest.mark.parametrize("unit", ["x", b"x", "\N{EURO SIGN}"])
def test_the_limit_counts_bytes(unit: str | bytes) -> None:
    size = len(unit.encode() if isinstance(unit, str) else unit)
    whole = LONGEST_NAME_BYTES // size
    assert len(Names().key(unit * whole)) <= LONGEST_NAME_BYTES
    with pytest.raises(ValueError, match="at most 4096 bytes"):
        Names().key(unit * (whole + 1))


def test_a_prefix_comes_before_every_name_and_counts() -> None:
    names = Names("app:")
    assert names.key("k") == b"app:k" == names.key(b"k")
    with pytest.raises(ValueError, match="at most 4096 bytes"):
        names.key("x" * LONGEST_NAME_BYTES)


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (None, TypeError),
        (5, TypeError),
        ("", ValueError),
        ("\ud800", ValueError),
        ("x" * 5000, ValueError),
    ],
)
def test_what_a_name_mapper_returns_is_checked(made: object, error: type[Exception]) -> None:
    names = Names(name_mapper=lambda _: cast("Any", made))
    with pytest.raises(error, match=r"name_mapper|at most"):
        names.key("k")


def test_a_name_mapper_maps_text() -> None:
    names = Names(name_mapper=lambda name: f"app:{name}:v1")
    assert names.key("k") == b"app:k:v1" == names.key(b"k")
    with pytest.raises(ValueError, match="name_mapper takes text"):
        names.key(b"\xff")


# In a cluster a name is refused if its keys and channels lie in several slots. That they do, and
# that no script uses others: primitives/test_one_slot.py.

ONE_TAG = ["{t}x", "a{b}c", "{a}{b}", "{{t}}"]
SEVERAL_SLOTS = ["a}b", "a}b{c", "{}x", "x{", "}x", "{", "}"]
BY_CHANCE = next(
    name for number in range(1_000_000) if key_slot(name := b"a}%d" % number) == key_slot(b"a")
)


@pytest.mark.parametrize(
    "channel",
    [
        _keys.lock_channel,
        _keys.read_write_channel,
        _keys.permit_channel,
        _keys.barrier_channel,
        _keys.latch_channel,
    ],
)
def test_which_names_can_be_used_in_a_cluster(channel: Callable[[bytes], bytes]) -> None:
    refused = [*SEVERAL_SLOTS]
    # Redisson puts the whole name of a latch in braces once more.
    refused += ONE_TAG if channel is _keys.latch_channel else []
    for name in ["a", *ONE_TAG, *SEVERAL_SLOTS]:
        assert Names().key(name, channel) == name.encode()
        if name not in refused:
            assert Names(in_cluster=True).key(name, channel) == name.encode()
            continue
        with pytest.raises(ValueError, match="cannot be used in a cluster"):
            Names(in_cluster=True).key(name, channel)


def test_no_rule_about_braces_decides_but_the_slots() -> None:
    assert Names(in_cluster=True).key(BY_CHANCE, _keys.lock_channel) == BY_CHANCE


@pytest.mark.parametrize("name", ["a}b", "a}b{c", "{}x", "x{", b"x{\xff"])
def test_the_error_says_what_lies_where_and_what_to_do(name: str | bytes) -> None:
    with pytest.raises(ValueError, match="cannot be used in a cluster") as caught:
        Names(in_cluster=True).key(name)
    text = str(caught.value)
    key = name if isinstance(name, bytes) else name.encode()
    assert text.startswith(repr(name))
    assert f"is in slot {key_slot(key)}, but 'redisson_lock__channel:" in text
    assert f"in slot {key_slot(_keys.lock_channel(key))}. " in text
    assert "put a pair around one part of it" in text


def test_a_latch_gets_other_advice() -> None:
    """A hash tag does not help there: Redisson puts the whole name in braces once more."""
    names = Names(in_cluster=True)
    with pytest.raises(ValueError, match=r"Remove the braces from the name$"):
        names.key("{t}x", _keys.latch_channel)
    assert names.key("t-x", _keys.latch_channel) == b"t-x"


def test_the_mapped_name_counts() -> None:
    mapped = Names(name_mapper=lambda name: name.replace("}", ""), in_cluster=True)
    assert mapped.key("a}b") == b"ab"
    worse = Names(name_mapper=lambda name: name + "{", in_cluster=True)
    with pytest.raises(ValueError, match=r"^'a' cannot .* 'a\{' is in slot"):
        worse.key("a")
    with pytest.raises(ValueError, match=r"'app\}:a' is in slot"):
        Names("app}:", in_cluster=True).key("a")
    assert Names("{app}:", in_cluster=True).key("a}b") == b"{app}:a}b"
