"""Names, options and URLs, over every store."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py._stores.mysql import MySQLStore
from redisson_py._stores.postgres import PostgresStore
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
    "Straße",
    "STRASSE",
    "strasse",
    "strasse ",
    "strassé",
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


@pytest.mark.parametrize("options", [{"command_timeout": 31}, {"lease_time": 0}, {"turn": -1}])
def test_bad_options_are_refused_without_a_word_of_redis(
    backend: Backend, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="must be") as caught:
        backend.client(**options)
    assert "Redis" not in str(caught.value)
    with pytest.raises(TypeError, match="there is no option 'lease'"):
        backend.client(lease=3)


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


@pytest.mark.parametrize(
    "url",
    [
        "",
        "secret",
        "redis://secret",
        "postgresql:/secret",
        "postgresql://user:sec:ret/x",
        "postgresql://user:secret@h:0",
        "postgresql://user:secret@h:123456",
        "postgresql://user:secret@h@h",
        "postgresql://user:secr/et@h",
        "postgresql://user:secr#et@h",
        "postgresql://user:secr?et@h",
        "postgresql://user:[secret@h",
        "postgresql://user:secret@h/d/e",
        "postgresql://user:secret@h/d?secret",
        "postgresql://user:secret@h/d?sec-ret=1",
        "postgresql://user:secret@h/d?sslmode=secret",
        "postgresql://user:secret@h/d?sslmode=verify-ca&sslrootcert=/secret/ca.pem",
        "postgresql://user:sec\nret@h",
        "postgresql://user:secret@h,:x",
        "redis://secret@h/d",
        "mysql:u:secret@h/d",
        "mysql://u:secret@h",
        "mysql://u:secret@h/",
        "mysql://u:secret@h/d/e",
        "mysql://:secret@h/d",
        "mysql://h/secret",
        "mysql://u:secret%ff@h/d",
        "mysql://u:secret@h:0/d",
        "mysql://u:secret@h:secret/d",
        "mysql://u:secret@h/d?secret",
        "mysql://u:secret@h/d?secret=1",
        "mysql://u:secret@h/d?connections=0",
        "mysql://u:secret@h/d?connections=1&connections=1",
        "mysql://u:secret@h/d?poll_interval=secret",
        "mysql://u:secret@h/d?poll_interval=nan",
        "mysql://u:secret@h/d?ssl=secret",
        "mysql://u:secret@h/d?ssl_ca_certs=/secret",
        "mysql://u:secret@h/d?ssl=true&ssl_ca_certs=/secret",
        "mysql://u:secret@h/d?ssl=true&ssl_keyfile=/secret",
        "mysql://u:se#cret@h/d",
        "mysql://u:se/cret@h/d",
        "mysql://u:sec\tret@h/d",
    ],
)
def test_a_bad_url_of_a_database_is_refused_and_never_quoted(url: str) -> None:
    for store in (PostgresStore, MySQLStore):
        with pytest.raises(ValueError, match="URL") as caught:
            store.from_url(url)
        assert "cret" not in str(caught.value).replace("user name or password", "")
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_a_url_is_text() -> None:
    for store in (PostgresStore, MySQLStore):
        with pytest.raises(TypeError):
            store.from_url(b"mysql://u@h/d")  # type: ignore[arg-type]
