"""What ZooKeeper cannot do is said: numbers that end, long sessions, data that it has lost."""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from redisson_py._stores.contract import Kind
from redisson_py.errors import BackendError
from redisson_py.zookeeper import ZooKeeper
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import (
    KINDS,
    SHORT,
    ask,
    give_back,
    granted,
    new_owner,
    opened,
    renewed,
    stranger,
    zookeeper_or_skip,
)

LAST: Final = 2**31 - 1
#: The end of what a snapshot has a checksum of, which stands before it.
SEAL: Final = b"\0\0\0\1/"


def directory(kind: Kind, numbers: str) -> str:
    """Return where those wait that have a number, and a name's last part."""
    return f"/{kind}-{numbers}" + ("/locks" if kind == "semaphore" else "")


def write_number(folder: Path, path: str, number: int) -> None:
    """Write into the last snapshot of a server that is down which number a directory gives next."""
    snapshot = max(
        (folder / "version-2").glob("snapshot.*"), key=lambda file: int(file.suffix[1:], 16)
    )
    before = snapshot.read_bytes()
    data, name = bytearray(before), path.encode()
    # A path, its data, and of its numbers that of the ACL, four long ones and the version.
    start = data.index(struct.pack("!i", len(name)) + name) + 4 + len(name)
    (size,) = struct.unpack_from("!i", data, start)
    struct.pack_into("!i", data, start + 4 + max(size, 0) + 8 + 4 * 8 + 4, number)
    start = 0
    while (start := before.find(SEAL, start + 1)) >= 8:
        if struct.unpack_from("!q", before, start - 8)[0] == zlib.adler32(before[: start - 8]):
            struct.pack_into("!q", data, start - 8, zlib.adler32(data[: start - 8]))
    snapshot.write_bytes(data)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server with directories that have given, or nearly, all the numbers that they have."""
    folder = tmp_path_factory.mktemp("zookeeper")
    with zookeeper_or_skip(folder) as running:
        with stranger(running) as kazoo:
            for kind in KINDS:
                kazoo.create(directory(kind, "end"), makepath=True)
                kazoo.create(directory(kind, "below"), makepath=True)
        # It writes a snapshot when it has started.
        running.stop()
        running.start()
        running.stop()
        for kind in KINDS:
            write_number(folder, directory(kind, "end"), LAST - 1)
            write_number(folder, directory(kind, "below"), -5)
        running.start()
        yield running


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_granted_when_the_numbers_have_ended(
    server: ZooKeeperServer, kazoo: KazooClient, kind: Kind
) -> None:
    name, path = f"/{kind}-end", directory(kind, "end")
    async with opened(server.url) as store:
        last, again = new_owner(), new_owner()
        await granted(store, name, last, kind)
        held = len(kazoo.get_children(path))
        for _ in range(4):
            with pytest.raises(BackendError, match="2,147,483,647 contender numbers"):
                await ask(store, name, new_owner(), kind)
        assert len(kazoo.get_children(path)) == held
        assert await give_back(store, name, last) is True
        for waits in (True, False):
            with pytest.raises(BackendError, match="delete that node when nobody uses it"):
                await ask(store, name, new_owner(), kind, waits=waits)
        assert kazoo.get_children(path) == []
        kazoo.delete(path)
        await granted(store, name, again, kind)
        assert await give_back(store, name, again) is True


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_granted_under_a_number_below_zero(
    server: ZooKeeperServer, kazoo: KazooClient, kind: Kind
) -> None:
    async with opened(server.url) as store:
        with pytest.raises(BackendError, match=f"'{directory(kind, 'below')}': its 2,147,483,647"):
            await ask(store, f"/{kind}-below", new_owner(), kind)
        assert kazoo.get_children(directory(kind, "below")) == []


async def test_a_lease_time_that_no_session_can_have(server: ZooKeeperServer) -> None:
    async with ZooKeeper.from_url(server.url, lease_time=60 * 86_400) as client:
        with pytest.raises(BackendError, match="grants sessions of at most 60 s"):
            await client.get_lock("k").acquire()


async def test_a_client_that_does_not_say_who_it_is(tmp_path: Path) -> None:
    options = ("-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=digest")
    with zookeeper_or_skip(tmp_path, *options) as strict:
        async with ZooKeeper.from_url(strict.url) as nobody:
            with pytest.raises(BackendError, match="put a user into the URL"):
                await nobody.get_lock("k").acquire()
            with pytest.raises(BackendError, match="put a user into the URL"):
                await nobody.ping()
        async with ZooKeeper.from_url(strict.url.replace("//", "//user:secret@")) as somebody:
            async with somebody.get_lock("k"):
                pass


@pytest.mark.parametrize("left", ["nothing", "a backup"])
async def test_a_client_goes_on_with_servers_that_know_less(tmp_path: Path, left: str) -> None:
    data, backup = tmp_path / "version-2", tmp_path / "backup"
    owner, other = new_owner(), new_owner()
    with zookeeper_or_skip(tmp_path) as server:
        async with opened(server.url, lease=SHORT) as store:
            server.stop()
            shutil.copytree(data, backup)
            server.start()
            hold = await granted(store, "/k", owner)
            server.stop()
            shutil.rmtree(data)
            if left == "a backup":
                shutil.copytree(backup, data)
            server.start()
            assert await renewed(store, "/k", owner, hold) is None
            await granted(store, "/k", other)
            assert await give_back(store, "/k", other) is True
