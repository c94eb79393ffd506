"""Names, options and URLs, over every store."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stores.backends import Backend, Client
from tests.stores.conftest import NewClient

pytestmark = pytest.mark.also("stores-uvloop")

NAMES: list[str | bytes] = [
    "k",
    "two words",
    "orders/7/paid",
    "/leading/slash",
    "trailing/",
    "//",
    "ünïcödé ✓ 🎉",
    "dots.and..more",
    ".",
    "..",
    "zookeeper",
    "%41%2F",
    "quote'\"`;--",
    "UPPER lower",
    "\t\n\x01\x7f\x85",
    "{braces}",
    "x" * 4096,
    "ä" * 2048,
    b"bytes",
]


async def test_any_name_is_a_lock_of_its_own(client: Client, other: Client) -> None:
    leases = [await client.get_lock(name).acquire() for name in NAMES]
    also = await other.get_lock("upper LOWER").try_acquire()
    assert also is not None, "case counts"
    for name in NAMES:
        assert await other.get_lock(name).try_acquire() is None, name
    for lease in leases:
        await lease.release()
    for name in NAMES:
        assert not await other.get_lock(name).locked(), name
    await also.release()


def test_bad_options_are_refused(backend: Backend) -> None:
    with pytest.raises(TypeError, match="there is no option 'lease'"):
        backend.client(lease=3)
    with pytest.raises(ValueError, match="lease_time must be between"):
        backend.client(lease_time=0)


@pytest.mark.parametrize("options", [{"command_timeout": 31}, {"lease_time": 0}, {"turn": -1}])
def test_no_error_of_a_store_speaks_of_redis(backend: Backend, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        backend.client(**options)
    assert "Redis" not in str(caught.value)


def test_no_error_quotes_the_url(backend: Backend) -> None:
    scheme = backend.url.partition("://")[0]
    for url in (f"{scheme}://user:secr3t@host:nope/db", "secr3t", f"{scheme}://us:secr3t@[::1"):
        with pytest.raises(ValueError, match=r"\w") as caught:
            backend.client(url)
        shown = repr(caught.value) + repr(caught.value.__cause__) + repr(caught.value.__context__)
        assert "secr3t" not in shown


async def test_a_prefix_comes_before_each_name(new_client: NewClient, client: Client) -> None:
    async with new_client(prefix="app:").get_lock("k"):
        assert await client.get_lock("app:k").locked()
        assert not await client.get_lock("k").locked()
