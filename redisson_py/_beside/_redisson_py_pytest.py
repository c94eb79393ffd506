"""The options and fixtures that pytest loads. `redisson_py.pytest_plugin` does the work.

Where redisson_py is installed, every pytest run loads this, used or not. So it is not part of the
package and imports nothing that pytest has not imported: importing redisson_py would delay each
run by some tenths of a second, and would come before coverage begins to measure.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from redisson_py import Redisson
    from redisson_py.pytest_plugin import Database, Kept
    from redisson_py.testing import EmbeddedCluster, EmbeddedSentinel, FaultProxy

_OURS: Final = "redisson_py_asyncio"
_SCOPES: Final = ("function", "class", "module", "package", "session")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options by which users name a server of their own."""
    group = parser.getgroup("redisson_py", "servers for tests of redisson_py")
    group.addoption(
        "--redisson-url",
        metavar="URL",
        help="test against this server instead of starting one (needs --redisson-flush); {worker}"
        " stands for the number of the pytest-xdist worker. Default: $REDISSON_PY_TEST_URL",
    )
    group.addoption(
        "--redisson-flush",
        action="store_true",
        help="empty the database of --redisson-url before each test (FLUSHDB)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add what needs pytest-asyncio, where it is used and not too old."""
    if config.pluginmanager.hasplugin("asyncio"):
        try:
            fixtures = _asyncio_fixtures()
        except (AttributeError, ImportError, TypeError):
            return
        config.pluginmanager.register(fixtures, _OURS)


# Servers of the session, each started when a test first asks for it.


@pytest.fixture(scope="session")
def _redisson_database(pytestconfig: pytest.Config) -> Iterator[Database]:
    from redisson_py import pytest_plugin

    with pytest_plugin.database(pytestconfig) as found:
        yield found


@pytest.fixture(scope="session")
def _redisson_clusters() -> Iterator[Kept[EmbeddedCluster]]:
    from redisson_py import pytest_plugin

    with pytest_plugin.clusters() as kept:
        yield kept


@pytest.fixture(scope="session")
def _redisson_sentinels() -> Iterator[Kept[EmbeddedSentinel]]:
    from redisson_py import pytest_plugin

    with pytest_plugin.sentinels() as kept:
        yield kept


# Fixtures for tests.


@pytest.fixture
def redisson_url(_redisson_database: Database) -> str:
    """The URL of a real server of this run, or this xdist worker; emptied before each test."""
    _redisson_database.empty()
    return _redisson_database.url


@pytest.fixture
def redisson_client(request: pytest.FixtureRequest, redisson_url: str) -> Redisson:
    """A client of `redisson_url`. The test fails if it leaves a lease held or a task waiting."""
    client: Redisson = request.getfixturevalue(_variant(request, "client"))
    return client


@pytest.fixture
def redisson_proxy(request: pytest.FixtureRequest, redisson_url: str) -> FaultProxy:
    """A `FaultProxy` in front of that server: connect to its `url`, then break the connection."""
    proxy: FaultProxy = request.getfixturevalue(_variant(request, "proxy"))
    return proxy


@pytest.fixture
def redisson_cluster(_redisson_clusters: Kept[EmbeddedCluster]) -> Iterator[EmbeddedCluster]:
    """A cluster of three masters with a replica each, empty; repaired after the test."""
    with _redisson_clusters.lent() as cluster:
        yield cluster


@pytest.fixture
def redisson_sentinel(_redisson_sentinels: Kept[EmbeddedSentinel]) -> Iterator[EmbeddedSentinel]:
    """A master, two replicas and three Sentinels, empty; new ones if the last test broke them."""
    with _redisson_sentinels.lent() as sentinel:
        yield sentinel


# A client and a proxy belong to the event loop of the test, and are closed there. So the fixtures
# above ask for one of those below: an async fixture of the plugin that runs this test, in the loop
# scope of this test.


def _variant(request: pytest.FixtureRequest, what: str) -> str:
    """Return the name of the fixture that makes a client or a proxy for the test of `request`."""
    config, item = request.config, request.node
    by_asyncio = config.pluginmanager.hasplugin(_OURS)
    if by_asyncio:
        from pytest_asyncio import is_async_test

        if is_async_test(item):
            if "anyio_backend" in request.fixturenames:
                pytest.fail(
                    "pytest-asyncio and anyio both run this test, each in its own event loop: set"
                    " asyncio_mode to strict, or remove anyio's mark",
                    pytrace=False,
                )
            mark = item.get_closest_marker("asyncio")
            options = {} if mark is None else mark.kwargs
            default = config.getini("asyncio_default_test_loop_scope")
            return f"_redisson_{what}_{options.get('loop_scope', default)}"
    elif config.pluginmanager.hasplugin("asyncio") and item.get_closest_marker("asyncio"):
        pytest.fail("redisson_py's fixtures need pytest-asyncio 1.0 or later", pytrace=False)
    if "anyio_backend" in request.fixturenames:
        backend = request.getfixturevalue("anyio_backend_name")
        if backend != "asyncio":
            pytest.fail(
                f"redisson_py needs asyncio, but this test runs on {backend}: select asyncio with"
                " a fixture `anyio_backend` that returns 'asyncio', or with"
                " @pytest.mark.parametrize('anyio_backend', ['asyncio'])",
                pytrace=False,
            )
        return f"_redisson_{what}_anyio"
    if what == "proxy":
        pytest.fail(
            "redisson_proxy needs the event loop of an async test, run by pytest-asyncio or"
            " anyio's plugin",
            pytrace=False,
        )
    if by_asyncio:
        # A plain test, which may have async fixtures.
        scope = config.getini("asyncio_default_fixture_loop_scope")
        return f"_redisson_client_{scope if scope in _SCOPES else 'function'}"
    return "_redisson_client_plain"


async def _client(redisson_url: str) -> AsyncIterator[Redisson]:
    from redisson_py import pytest_plugin

    async with pytest_plugin.client(redisson_url) as client:
        yield client


async def _proxy(redisson_url: str) -> AsyncIterator[FaultProxy]:
    from redisson_py.testing import FaultProxy

    async with FaultProxy.in_front_of(redisson_url) as proxy:
        yield proxy


@pytest.fixture
def _redisson_client_plain(redisson_url: str) -> Iterator[Redisson]:
    from redisson_py import pytest_plugin

    with pytest_plugin.client_without_loop(redisson_url) as client:
        yield client


_redisson_client_anyio = pytest.fixture(_client, name="_redisson_client_anyio")
_redisson_proxy_anyio = pytest.fixture(_proxy, name="_redisson_proxy_anyio")


def _asyncio_fixtures() -> ModuleType:
    """Return one fixture for each kind of thing and each scope that an event loop can have."""
    import pytest_asyncio

    def copied(function: Callable[[str], AsyncIterator[Any]]) -> Any:
        # pytest-asyncio notes the scope on the function.
        async def made(redisson_url: str) -> AsyncIterator[Any]:
            async for each in function(redisson_url):
                yield each

        return made

    # In a module pytest takes them for functions, in an object for methods.
    fixtures = ModuleType(_OURS)
    for scope in _SCOPES:
        for what, function in {"client": _client, "proxy": _proxy}.items():
            name = f"_redisson_{what}_{scope}"
            fixture = pytest_asyncio.fixture(copied(function), loop_scope=scope, name=name)
            setattr(fixtures, name, fixture)
    return fixtures
