"""The clients of other stores refuse the arguments of other libraries in our words, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redisson_py.etcd import Etcd
from redisson_py.mysql import MySQL
from redisson_py.postgres import Postgres
from redisson_py.zookeeper import ZooKeeper

CLIENTS: list[Any] = [
    Postgres.from_url("postgresql://u@127.0.0.1:1/d"),
    MySQL.from_url("mysql://u@127.0.0.1:1/d"),
    Etcd.from_url("etcd://127.0.0.1:1"),
    ZooKeeper.from_url("zookeeper://127.0.0.1:1"),
]
GETTERS: list[Callable[..., Any]] = [
    getattr(client, name) for client in CLIENTS for name in dir(client) if name.startswith("get_")
]


@pytest.mark.parametrize("get", GETTERS, ids=lambda get: get.__qualname__)
def test_times_given_to_what_is_made(get: Callable[..., Any]) -> None:
    for args, given in (((10,), {}), ((), {"timeout": 10})):
        with pytest.raises(TypeError, match=r"timeout=, the time to wait, is an argument of"):
            get("k", *args, **given)
    with pytest.raises(TypeError, match="lease_time="):
        get("k", expire=10)


def test_a_campaign_takes_no_other_words() -> None:
    election = CLIENTS[2].get_election("k")
    with pytest.raises(TypeError, match="'ttl'"):
        election.campaign("me", ttl=5)
