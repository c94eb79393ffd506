"""Servers that come back without their data, or with those of an older backup."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores.zookeeper.server import TICK, ZooKeeperServer
from tests.stores.zookeeper.support import (
    granted,
    new_owner,
    opened,
    renewal,
    soon,
    zookeeper_or_skip,
)

SESSION = 15 * TICK


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with zookeeper_or_skip(tmp_path) as running:
        yield running


@pytest.mark.parametrize("left", ["nothing", "a backup"])
async def test_a_client_goes_on_with_servers_that_know_less(
    server: ZooKeeperServer, tmp_path: Path, left: str
) -> None:
    data, backup = tmp_path / "version-2", tmp_path / "backup"
    async with opened(server.url, lease=SESSION) as store:
        server.stop()
        shutil.copytree(data, backup)
        server.start()
        owner, other = new_owner(), new_owner()
        hold = await granted(store, "/k", owner)
        server.stop()
        shutil.rmtree(data)
        if left == "a backup":
            shutil.copytree(backup, data)
        server.start()
        assert await store.renew([renewal("/k", owner, hold)], soon()) == [None]
        await granted(store, "/k", other)
        assert await store.give_back("/k", other, False, soon()) is True
