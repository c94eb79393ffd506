"""The text that stands for a hold on its way: whole, or refused."""

from __future__ import annotations

import base64
import json
import string
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisson_py._engine.handed_over import PREFIX, HandedOver

OWNER = "d75b1d78-e92f-4fab-9ae4-e083bdd35477:01"
HANDED = HandedOver(
    "fenced lock", "ledger", b"p:ledger", "3", OWNER, "5ec2e7", 7, 64, 1_795_903_171_708
)

names = st.text(min_size=1).filter(lambda name: name.isprintable()) | st.binary(min_size=1)


@given(names, st.binary(), st.none() | st.integers(0, 2**63), st.integers(1, 2**53))
def test_it_is_read_as_it_was(
    name: str | bytes, key: bytes, token: int | None, until_ms: int
) -> None:
    handed = HandedOver("lock", name, key, "0", OWNER, "5ec2e7", token, 0, until_ms)
    text = handed.text()
    assert HandedOver.read(text) == handed
    assert set(text) <= {*string.ascii_letters, *string.digits, "-", "_", "."}


def test_one_changed_character_is_noticed() -> None:
    text = HANDED.text()
    for at in range(len(PREFIX), len(text) - 1):
        for other in {*"AQgwz09_-"} - {text[at]}:
            with pytest.raises(ValueError, match="damaged") as caught:
                HandedOver.read(text[:at] + other + text[at + 1 :])
            assert caught.value.__cause__ is None


def test_every_cut_is_noticed() -> None:
    text = HANDED.text()
    for length in range(len(text)):
        with pytest.raises(ValueError, match=r"damaged|no token|another release"):
            HandedOver.read(text[:length])
    with pytest.raises(ValueError, match="damaged"):
        HandedOver.read(text + text)


@pytest.mark.parametrize(
    "values",
    [
        [],
        {},
        None,
        7,
        [["lock"]],
        ["lock", False, "k", "k", "0", OWNER, "s", None, 0],
        ["lock", False, "k", "k", "0", OWNER, "s", None, 0, 0],
        ["lock", False, "k", "k", "0", OWNER, "s", None, 0, 1.5],
        ["lock", False, "k", "k", "0", OWNER, "s", None, True, 1],
        ["lock", False, "k", "k", "0", OWNER, "s", "7", 0, 1],
        ["lock", 0, "k", "k", "0", OWNER, "s", None, 0, 1],
        ["lock", False, "k", "k", 0, OWNER, "s", None, 0, 1],
        [None, False, "k", "k", "0", OWNER, "s", None, 0, 1],
        ["lock", False, "k", "k", "0", "\ud800", "s", None, 0, 1],
        ["lock", False, "k", "k", "0", OWNER, "é", None, 0, 1],
        ["lock", False, "\ud800", "k", "0", OWNER, 5, None, 0, 1],
    ],
)
def test_another_layout_is_refused(values: object) -> None:
    written = json.dumps(values).encode()
    checked = zlib.crc32(written).to_bytes(4, "big") + written
    with pytest.raises(ValueError, match="damaged"):
        HandedOver.read(PREFIX + base64.urlsafe_b64encode(checked).decode())


def test_it_keeps_its_secret() -> None:
    assert OWNER not in repr(HANDED)
    assert HANDED.secret not in repr(HANDED)
    assert HANDED.text() not in repr(HANDED)
