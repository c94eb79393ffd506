"""The other stores for threads: their clients, and the kinds of locks that each has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redisson_py.sync import MultiLock, Redisson
from redisson_py.sync.etcd import Etcd
from redisson_py.sync.mysql import MySQL
from redisson_py.sync.postgres import Postgres
from redisson_py.sync.zookeeper import ZooKeeper
from tests.stores.backends import CLIENT_LEASE, Backend

#: The client of each store.
CLIENTS: dict[str, Any] = {
    "postgres": Postgres,
    "mysql": MySQL,
    "etcd": Etcd,
    "zookeeper": ZooKeeper,
}
#: URLs at which nobody answers.
NOWHERE = {
    "postgres": "postgresql://u@127.0.0.1:1/d",
    "mysql": "mysql://u@127.0.0.1:1/d",
    "etcd": "etcd://127.0.0.1:1",
    "zookeeper": "zookeeper://127.0.0.1:1",
}

StoreClients = Callable[..., Any]

_COMMON: dict[str, Callable[[Any], Any]] = {
    "lock": lambda store: store.get_lock("k"),
    "fenced_lock": lambda store: store.get_fenced_lock("k"),
    "multi_lock": lambda store: MultiLock(store.get_lock("k"), store.get_fenced_lock("l")),
}
_WRITE: dict[str, Callable[[Any], Any]] = {
    "write_lock": lambda store: store.get_read_write_lock("k").write_lock()
}
#: The locks of each store that one thread holds and may enter again.
KINDS = {
    "postgres": _COMMON | _WRITE,
    "mysql": _COMMON,
    "etcd": _COMMON | _WRITE,
    "zookeeper": _COMMON | _WRITE,
}
#: Each of them, as parameters of a test.
ALL = [(store, kind) for store, kinds in KINDS.items() for kind in kinds]


def new_client(name: str, backend: Backend, *, url: str = "", **options: Any) -> Any:
    """Return a client for threads of a store that runs; with a URL, behind a proxy."""
    kind = Redisson if name == "redis" else CLIENTS[name]
    return kind.from_url(url or backend.url, **{"lease_time": CLIENT_LEASE, **options})
