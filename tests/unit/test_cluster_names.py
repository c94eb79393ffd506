"""In a cluster a name is refused if, and only if, its keys and channels lie in several slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redisson_py import _keys
from redisson_py._commands import read_write_lock
from redisson_py._commands.barrier import BarrierCommands
from redisson_py._commands.latch import LatchCommands
from redisson_py._commands.lock import FairLockCommands, FencedLockCommands, LockCommands
from redisson_py._commands.permit_expirable_semaphore import PermitExpirableSemaphoreCommands
from redisson_py._commands.semaphore import SemaphoreCommands
from redisson_py._keys import Names, key_slot
from redisson_py._on_redis.receipts import receipt_key
from redisson_py._scripts.source import Arg

NAMES = st.text("ab{}", min_size=1, max_size=8)
OWNERS = [f"01234567-89ab-cdef-0123-456789abcdef:{number}" for number in (1, 2, 17)]
WISH: Any = SimpleNamespace(
    target=1,
    lease_ms=9000,
    once=False,
    version=1,
    version_ms=9000,
    wait_ms=9000,
    checks=True,
    compares=True,
    client=b"c",
    yields=False,
)


def keys_of(call: bytes) -> list[bytes]:
    """Return the keys of a packed call: their number comes first."""
    words = call.split(b"\r\n")[1::2]
    return words[1 : 1 + int(words[0])]


def values_of(values: dict[str, Arg]) -> list[bytes]:
    return [value for value in values.values() if isinstance(value, bytes)]


def owned(commands: Any) -> Iterable[bytes]:
    """Return what a lock or a semaphore uses."""
    yield from (commands.key, commands.channel, *commands.keys, *commands.renewal_keys)
    for owner in OWNERS:
        field = commands.field(owner)
        wish = SimpleNamespace(**vars(WISH), owner=owner, field=field)
        hold = SimpleNamespace(owner=owner, batch=None, field=field, units=1)
        yield commands.request_channel(owner)
        yield from keys_of(commands.acquire(wish))
        yield from keys_of(commands.undo(wish, 9000, 1, 9000))
        yield from keys_of(commands.release(hold, 1, 9000, 9000, 1, 9000))
        yield from keys_of(commands.set_lease(hold, 9000, 1, 9000))
        yield receipt_key(commands.key, owner)


def of_latch(key: bytes) -> Iterable[bytes]:
    for owner in OWNERS:
        latch = LatchCommands(key, receipt_key(key, owner), _keys.latch_channel(key))
        yield from keys_of(latch.count(1, 9000))
        for call in (latch.count_down(1, 1), latch.try_set_count(1), latch.delete()):
            yield from values_of(call)


def of_barrier(key: bytes) -> Iterable[bytes]:
    barrier = BarrierCommands(key)
    # Calls are sent by the key that the name alone would give.
    yield from (key, *values_of(barrier.change()), *keys_of(barrier.inspect(1)))
    for owner in OWNERS:
        yield from keys_of(barrier.wait(owner, 1, 1, 9000, 9000))
        yield from keys_of(barrier.leave(owner, 9000, 9000))
        yield receipt_key(key, owner)


Used = Callable[[bytes], Iterable[bytes]]

#: What each kind uses, from its key; and the channel it is checked by.
KINDS: dict[str, tuple[Used, Callable[[bytes], bytes]]] = {
    "lock": (lambda key: owned(LockCommands(key)), _keys.lock_channel),
    "fenced lock": (lambda key: owned(FencedLockCommands(key, 60_000)), _keys.lock_channel),
    "fair lock": (lambda key: owned(FairLockCommands(key, 9.0)), _keys.lock_channel),
    "read lock": (
        lambda key: owned(read_write_lock.YieldingReadLockCommands(key)),
        _keys.read_write_channel,
    ),
    "write lock": (
        lambda key: owned(read_write_lock.PreferredWriteLockCommands(key)),
        _keys.read_write_channel,
    ),
    "semaphore": (lambda key: owned(SemaphoreCommands(key, 1)), _keys.permit_channel),
    "permit expirable semaphore": (
        lambda key: owned(PermitExpirableSemaphoreCommands(key, 1)),
        _keys.permit_channel,
    ),
    "latch": (of_latch, _keys.latch_channel),
    "barrier": (of_barrier, _keys.barrier_channel),
}


@pytest.mark.parametrize("kind", KINDS)
@given(name=NAMES)
@example(name="a}b")
@example(name="a}b{c")
@example(name="{}x")
@example(name="x{")
@example(name="}x")
@example(name="{t}x")
@example(name="a{b}c")
@example(name="{a}{b}")
@example(name="{{t}}")
@example(name="{")
@example(name="}")
def test_a_name_is_refused_if_its_keys_lie_in_several_slots(kind: str, name: str) -> None:
    used, channel = KINDS[kind]
    names = Names(in_cluster=True)
    slots = {key_slot(key) for key in used(name.encode())}
    if len(slots) == 1:
        assert names.key(name, channel) == name.encode()
    else:
        with pytest.raises(ValueError, match="cannot be used in a cluster"):
            names.key(name, channel)
    assert Names().key(name, channel) == name.encode()


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
