"""What everything that can be held must satisfy is written once and run over each kind of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.locks.lock_like import LockLike
from redisson_py.testing import FaultProxy
from tests.contract.servers import RedisServers, Servers, Site, StoreServers
from tests.fixtures.backends import Running
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.fixtures.redis_server import ProxyFactory
from tests.stores.backends import Backend
from tests.support.kinds import (
    KINDS,
    ONCE_KINDS,
    SEMAPHORES,
    STORE_KINDS,
    STORES,
    Kind,
    MakeLock,
)

EVERY_KIND = KINDS | STORE_KINDS | ONCE_KINDS
#: Of each other store, the kind of the heart, and the file: `test-more` runs the rest.
HEART_KINDS = [STORE_KINDS[f"fenced_lock_in_{store}"] for store in STORES if store != "redis"]
HEART_FILE = "test_acquire_release.py"
_DECORATORS = Path(__file__).with_name("test_decorator.py")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what is about other stores, and leave all but what is basic to `make test-more`."""
    store, kind = _about(item)
    if store == "redis":
        if kind is ONCE_KINDS["once"]:
            item.add_marker("more")
        return
    if kind not in HEART_KINDS or item.path.name != HEART_FILE:
        item.add_marker("more")
    item.add_marker("other_store")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out other stores where `--server` or `--user` choose a Redis: nothing differs there.

    And what decorates a function, of kinds that may not.
    """
    functions = {item for item in items if _decorates(item)}
    config.hook.pytest_deselected(items=list(functions))
    items[:] = [item for item in items if item not in functions]
    if (config.getoption("--server"), config.getoption("--user")) == ("valkey", "default"):
        return
    others = {item for item in items if item.get_closest_marker("other_store")}
    config.hook.pytest_deselected(items=list(others))
    items[:] = [item for item in items if item not in others]


def _decorates(item: pytest.Item) -> bool:
    """Return whether a test decorates with a kind that does not decorate."""
    # Tests of other folders have kinds of their own.
    if item.path != _DECORATORS:
        return False
    _, kind = _about(item)
    return kind is not None and not kind.decorates


def _about(item: pytest.Item) -> tuple[str, Kind | None]:
    """Return the store that a test is about, and its kind, if it is about one."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "kind" in params:
        kind = _kind(params["kind"])
        return kind.store, kind
    return params.get("store", "redis"), None


def _kind(found: str | Kind) -> Kind:
    return EVERY_KIND[found] if isinstance(found, str) else found


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    """Each store, for tests of all its kinds beside each other."""
    found: str = request.param
    return found


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Backend | None:
    """The store that the test is about, if that is not Redis; its server runs."""
    store, _ = _about(request.node)
    if store == "redis":
        return None
    running: Running = request.getfixturevalue("running_backend")
    return running(store)


@pytest_asyncio.fixture
async def site(backend: Backend | None) -> AsyncIterator[Site | None]:
    """The store that the test is about, if that is not Redis."""
    if backend is None:
        yield None
        return
    site = Site(backend)
    try:
        yield site
        await site.assert_idle()
    finally:
        await site.aclose()


@pytest_asyncio.fixture
async def clients(site: Site | None, clients: ClientFactory) -> Callable[..., Any]:
    """Make clients of the store that the test is about, as the fixture of all tests for Redis."""
    return clients if site is None else site.client


@pytest_asyncio.fixture
async def proxy(site: Site | None, proxy: ProxyFactory) -> AsyncIterator[ProxyFactory]:
    """Put fresh proxies in front of its server, as the fixture of all tests for Redis."""
    async with AsyncExitStack() as stack:

        async def start() -> FaultProxy:
            assert site is not None
            return await stack.enter_async_context(site.proxy())

        yield proxy if site is None else start


class Each:
    """One of the kinds that a test has beside each other: its client and name are its own."""

    def __init__(self, kind: Kind, name: str, client: Redisson, servers: Servers) -> None:
        self.kind = kind
        self.name = name
        self.client = client
        self.servers = servers
        self.lock = servers.make(kind.make, client, name)

    def rival(self, client: Redisson) -> LockLike:
        """Make what cannot be acquired while it is held."""
        return self.servers.make(self.kind.rival or self.kind.make, client, self.name)


Every = Callable[..., list[Each]]


@pytest_asyncio.fixture
async def every(
    store: str, site: Site | None, clients: ClientFactory, redis: Redis, fleet: Fleet
) -> AsyncIterator[Every]:
    """Return the kinds to which a claim applies, for what takes long: all wait at the same time.

    `every(is_lock, lease_time=3)`: options are those of the clients.
    """

    def chosen(applies: Callable[[Kind], object], **options: Any) -> list[Each]:
        # In a cluster, all in the slot before which a proxy stands.
        return [
            Each(kind, f"{{k}}{name}", clients(**options), servers)
            for name, kind in EVERY_KIND.items()
            if kind.store == store and applies(kind)
            for servers in [_servers(kind, site, redis, fleet if kind.servers > 1 else None)]
        ]

    yield chosen
    # Counters last for ever.
    await redis.delete(*[f"{{k}}{name}" for name in SEMAPHORES])


def _servers(kind: Kind, site: Site | None, redis: Redis, beside: Fleet | None) -> Servers:
    return RedisServers(kind, redis, beside) if site is None else StoreServers(kind, site)


@pytest.fixture(params=EVERY_KIND)
def kind(request: pytest.FixtureRequest) -> Kind:
    """A kind of thing that can be held."""
    return _kind(request.param)


@pytest.fixture
def beside(kind: Kind, request: pytest.FixtureRequest) -> Fleet | None:
    """Other servers than the session's, for what lives on several."""
    return request.getfixturevalue("fleet") if kind.servers > 1 else None


@pytest_asyncio.fixture
async def servers(
    kind: Kind, site: Site | None, redis: Redis, beside: Fleet | None
) -> AsyncIterator[Servers]:
    """The servers of this kind."""
    yield _servers(kind, site, redis, beside)
    if kind.semaphore:
        # Counters last for ever, and with them the leases that ended since their last use.
        await redis.flushdb()


@pytest.fixture
def make_lock(kind: Kind, servers: Servers) -> MakeLock:
    """Make one of this kind: `make_lock(client, "name")`."""
    return lambda client, name="k": servers.make(kind.make, client, name)


@pytest.fixture
def make_rival(kind: Kind, servers: Servers) -> MakeLock:
    """Make what cannot be acquired while one of this kind is held."""
    return lambda client, name="k": servers.make(kind.rival or kind.make, client, name)


@pytest.fixture
def lock(client: Any, make_lock: MakeLock) -> LockLike:
    """One of this kind."""
    return make_lock(client)


def for_kinds(applies: Callable[[Kind], object]) -> pytest.MarkDecorator:
    """Run a test over the kinds to which its claim applies."""
    names = [name for name, kind in EVERY_KIND.items() if applies(kind)]
    return pytest.mark.parametrize("kind", names, indirect=True)


def in_redis(kind: Kind) -> bool:
    """Whether it lives in Redis."""
    return kind.store == "redis"


def is_single(kind: Kind) -> bool:
    """Whether it is a single lock, with an owner of its own on the server."""
    return not kind.semaphore and not kind.composite


def is_central(kind: Kind) -> bool:
    """Whether it lives on one server."""
    return kind.servers == 1


def is_lock(kind: Kind) -> bool:
    """Whether it belongs to a task."""
    return not kind.semaphore


def is_reentrant(kind: Kind) -> bool:
    """Whether its task may acquire it again."""
    return kind.reentrant and not kind.semaphore


def is_passing(kind: Kind) -> bool:
    """Whether it is passed from task to task, with its owner."""
    return kind.passes and is_single(kind)


locks = for_kinds(is_lock)
"""For tests of what belongs to a task: who owns it, how often, and who may release it."""

exclusive = for_kinds(lambda kind: kind.rival is None)
exclusive_locks = for_kinds(lambda kind: kind.rival is None and not kind.semaphore)
"""For tests of several tasks of which one can have it."""

timed = for_kinds(lambda kind: kind.timed)
"""For tests of a `lease_time`."""

central = for_kinds(is_central)
"""For tests of what happens to the one server that has it."""

single = for_kinds(is_single)
"""For tests that look at the owner on the server."""

of_redis = for_kinds(in_redis)
central_of_redis = for_kinds(lambda kind: in_redis(kind) and is_central(kind))
central_locks_of_redis = for_kinds(
    lambda kind: in_redis(kind) and is_central(kind) and is_lock(kind)
)
single_of_redis = for_kinds(lambda kind: in_redis(kind) and is_single(kind))
passing_of_redis = for_kinds(lambda kind: in_redis(kind) and is_passing(kind))
"""For tests of Redis's keys, scripts and writes."""

reentrant = for_kinds(is_reentrant)
single_reentrant = for_kinds(lambda kind: kind.reentrant and is_single(kind))
"""For tests that enter it again."""

passing = for_kinds(is_passing)
"""For tests of what is passed from task to task."""
