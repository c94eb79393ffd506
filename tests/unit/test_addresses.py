"""Addresses as users write them, and the map of those that nodes announce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redisson_py import BackendError, Redisson
from redisson_py._addresses import (
    Address,
    AddressMap,
    read_address,
)
from redisson_py._options import check_options


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("a:1", ("a", 1)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
        ("[::1]:7", ("::1", 7)),
        ("::1:7", None),
        ("[a]:7", None),
        ("a", None),
        (":1", None),
        ("a:", None),
        ("a:0", None),
        ("a:65536", None),
        ("a:+1", None),
        ("a:٣", None),
        ("a b:1", None),
        ("redis://a:1", None),
        ("u:p@a:1", None),
        ("", None),
    ],
)
def test_what_is_an_address(text: str, address: Address | None) -> None:
    assert read_address(text) == address


def taken(given: object) -> Callable[[str, int], Address]:
    found = check_options(address_map=given).address_map  # type: ignore[arg-type]  # checked there
    assert isinstance(found, AddressMap)
    return found


@pytest.mark.parametrize(
    "mapping",
    [
        {"a:1": "b:2", "[::1]:1": "[::2]:2"},
        {("a", 1): ("b", 2), ("::1", 1): ("::2", 2)},
        {"a:1": ("b", 2), ("::1", 1): "[::2]:2"},
    ],
)
def test_a_mapping_is_taken(mapping: dict[Any, Any]) -> None:
    found = taken(mapping)
    assert found("a", 1) == ("b", 2)
    assert found("::1", 1) == ("::2", 2)
    assert found("a", 2) == ("a", 2)
    mapping.clear()
    assert found("a", 1) == ("b", 2)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (7, TypeError),
        ("a:1", TypeError),
        ([("a", 1)], TypeError),
        ({"a:1": None}, TypeError),
        ({1: "a:1"}, TypeError),
        ({b"a:1": "a:1"}, TypeError),
        ({"a:1": ["b", 2]}, TypeError),
        ({("a", 1, 2): "a:1"}, TypeError),
        ({("a", "1"): "a:1"}, TypeError),
        ({("a", True): "a:1"}, TypeError),
        ({("a", 1.0): "a:1"}, TypeError),
        ({"a": "b"}, ValueError),
        ({"a:1": "b"}, ValueError),
        ({"a:1": ":1"}, ValueError),
        ({"::1:1": "a:1"}, ValueError),
        ({("a", 0): "a:1"}, ValueError),
        ({("", 1): "a:1"}, ValueError),
        ({"a:1": ("b", 65536)}, ValueError),
        ({"a:1": ("redis://b", 1)}, ValueError),
    ],
    ids=str,
)
def test_other_maps_are_refused_before_anything_is_sent(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="address_map"):
        Redisson.from_url("redis+cluster://a", address_map=given)


@pytest.mark.parametrize("found", [None, "b:2", ("b",), ("b", "2"), ("", 2), ("b", 0), ("b", True)])
def test_a_function_that_returns_no_address_is_reported(found: object) -> None:
    with pytest.raises(BackendError, match=r"address_map must return \(host, port\).*\[::1\]:1"):
        taken(lambda host, port: found)("::1", 1)


def test_a_function_that_raises_is_reported() -> None:
    def fail(host: str, port: int) -> Address:
        raise KeyError(host)

    with pytest.raises(
        BackendError, match=r"address_map failed for a:1: KeyError\('a'\)"
    ) as caught:
        taken(fail)("a", 1)
    assert isinstance(caught.value.__cause__, KeyError)
