"""Which resource a key belongs to, and which names a pattern means."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from redisson_py import _keys
from redisson_py._cli.looks.keyspace import Names, glob, is_owner, resource_of

#: Names whose own braces, if any, enclose no whole name.
NAMES = [b"k", b"a:b", b"{a}:b", b"a{b}", b"a}b", b"orders:7", "größe".encode()]
DERIVED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("semaphore", lambda key: _keys.suffixed(key, b"redisson_py:permits")),
    ("permits", lambda key: _keys.suffixed(key, b"timeout")),
    ("rate limiter", lambda key: _keys.suffixed(key, b"permits")),
    ("barrier", lambda key: _keys.suffixed(key, b"redisson_py:arrivals")),
    ("lock", lambda key: _keys.prefixed(b"redisson_lock_timeout", key)),
    ("lock", _keys.waiting_clients),
    ("once", _keys.once),
]
PATTERNS = [
    b"*",
    b"a*",
    b"*b",
    b"a?c",
    b"[ab]*",
    b"[^ab]*",
    b"[a-c]x",
    b"a\\*",
    b"a[*]",
    b"*]*",
    b"[]]",
    b"[a\\]]x",
    b"a.c",
    b"(a|b)",
    b"*\n*",
    b"[",
]
SUBJECTS = [b"a", b"abc", b"a*", b"a]", b"]x", b"cx", b"bcd", b"a.c", b"(a|b)", b"x\ny", b"a", b"["]


@pytest.mark.parametrize(("family", "derived"), DERIVED)
def test_a_derived_key_leads_back_to_its_name(
    family: str, derived: Callable[[bytes], bytes]
) -> None:
    found = [resource_of(derived(key)) for key in NAMES]
    assert found == [(key, family) for key in NAMES]


@pytest.mark.parametrize("key", [*NAMES, b"{k}", b":{k}", b":k", b"{k}:record"])
def test_a_run_leads_back_to_its_name_whatever_that_is(key: bytes) -> None:
    assert resource_of(_keys.once(key)) == (key, "once")


@pytest.mark.parametrize(
    "key",
    [b"k", b"session:timeout", b"redisson_py:client:x", b"{k}:redisson_py:units", b":timeout"]
    + [each(_keys.once(b"k")) for each in (_keys.once_record, _keys.fencing_token)]
    + [_keys.tombstone(_keys.once(b"k"), "a:1"), _keys.waiting_clients(_keys.once(b"k"))],
)
def test_other_keys_lead_nowhere(key: bytes) -> None:
    assert resource_of(key) is None


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_patterns_mean_what_they_mean_to_the_server(
    pattern: bytes, redis: Redis, one_server: None
) -> None:
    for subject in SUBJECTS:
        await redis.set(subject, "x", px=60_000)
    wanted = set(await redis.keys(pattern))
    own = glob(pattern)
    assert {subject for subject in SUBJECTS if own.fullmatch(subject)} == wanted


@pytest.mark.parametrize("pattern", ["a\\", "[a", "[a\\", "*[", "a*", "[a]", "\\["])
@given(names=st.lists(st.text("a[]\\*b", min_size=1), max_size=5))
def test_the_server_filters_out_no_name_that_is_looked_for(pattern: str, names: list[str]) -> None:
    wanted = Names("", pattern)
    filtered = glob(b"*" if wanted.match is None else wanted.match)
    for key in map(str.encode, names):
        if wanted.name(key) is not None:
            assert filtered.fullmatch(key)
            assert filtered.fullmatch(_keys.suffixed(key, b"redisson_py:permits"))


def test_many_stars_are_one() -> None:
    assert glob(b"*" * 30 + b"x").fullmatch(b"a" * 4096) is None


@given(st.binary(max_size=12))
def test_every_pattern_is_understood(pattern: bytes) -> None:
    glob(pattern).fullmatch(b"orders")


@pytest.mark.parametrize("prefix", ["", "svc:", "a*[b]"])
def test_names_are_without_the_prefix_and_match_the_pattern(prefix: str) -> None:
    names = Names(prefix, "or*")
    key = prefix.encode()
    assert names.name(key + b"orders") == b"orders"
    assert names.name(key + b"prices") is None
    assert names.name(key) is None
    assert names.name(b"other:orders") is None
    # What the server filters by lets every derived key through.
    assert names.match is not None
    filtered = glob(names.match)
    for _, derive in DERIVED:
        assert filtered.fullmatch(derive(key + b"orders"))


def test_everything_needs_no_filter() -> None:
    assert Names("", "*").match is None


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (b"12345678-1234-4321-8765-1234567890ab:47", True),
        (b"12345678-1234-4321-8765-1234567890ab:47:write", True),
        (b"12345678-1234-4321-8765-1234567890ab", False),
        (b"user:47", False),
        (b"12345678-1234-4321-8765-1234567890ab:x", False),
    ],
)
def test_an_owner_is_a_uuid_and_a_number(field: bytes, expected: bool) -> None:
    assert is_owner(field) is expected
