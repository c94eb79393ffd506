"""The fixtures of the pytest plugin, in suites that other plugins run."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec
from textwrap import dedent

import pytest

from tests.fixtures.redis_server import unavailable
from tests.integrations.suites import AUTO, run

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.also("floor"), pytest.mark.timeout(500)]

#: Uses a client and a proxy, and sees that both are of the loop that runs.
USES = """
    from redisson_py import Redisson

    async def use(client, proxy):
        async with client.get_lock("k") as lease:
            assert lease.remaining > 0
        async with Redisson.from_url(proxy.url) as behind:
            await behind.get_lock("k").acquire()
            assert await client.get_lock("k").locked()
            await behind.get_lock("k").release()
        assert proxy.accepted == 1
"""


def test_the_entry_point_is_installed() -> None:
    (found,) = entry_points(group="pytest11", name="redisson_py")
    assert found.value == "_redisson_py_pytest"


#: Tests of pytest-asyncio; each in the event loop of its scope.
OF_ASYNCIO = """
    import asyncio, pytest, pytest_asyncio
    from used import use

    async def test_first(redisson_client, redisson_proxy):
        await use(redisson_client, redisson_proxy)

    @pytest.mark.parametrize("time", [1, 2])
    async def test_parametrized(redisson_client, redisson_proxy, time):
        await use(redisson_client, redisson_proxy)

    @pytest_asyncio.fixture
    async def service(redisson_client):
        lease = await redisson_client.get_lock("service").acquire()
        yield lease
        await lease.release()

    async def test_a_fixture_of_the_user_ends_before_the_client(service):
        service.check()

    class Scope:
        async def test_first(self, redisson_client, redisson_proxy):
            self.loops.add(asyncio.get_running_loop())
            await use(redisson_client, redisson_proxy)

        async def test_second(self, redisson_client, redisson_proxy):
            self.loops.add(asyncio.get_running_loop())
            await use(redisson_client, redisson_proxy)
            assert len(self.loops) == 1

    @pytest.mark.asyncio(loop_scope="module")
    class TestModule(Scope):
        loops = set()

    @pytest.mark.asyncio(loop_scope="session")
    class TestSession(Scope):
        loops = set()
"""
OF_ANYIO = """
    import pytest
    from used import use

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    async def test_first(redisson_client, redisson_proxy):
        await use(redisson_client, redisson_proxy)

    @pytest.fixture
    async def service(redisson_client):
        lease = await redisson_client.get_lock("service").acquire()
        yield lease
        await lease.release()

    async def test_a_fixture_of_the_user_ends_before_the_client(service):
        service.check()
"""
PLAIN = """
    import asyncio, unittest
    import pytest
    from redisson_py import Redisson

    def test_it(redisson_url, redisson_client):
        async def main():
            async with redisson_client.get_lock("k"):
                async with Redisson.from_url(redisson_url) as other:
                    assert await other.get_lock("k").locked()

        asyncio.run(main())
        asyncio.run(main())

    class TestCase(unittest.IsolatedAsyncioTestCase):
        @pytest.fixture(autouse=True)
        def set_up(self, redisson_url):
            self.url = redisson_url

        async def test_it(self):
            async with Redisson.from_url(self.url) as client:
                assert await client.get_lock("k").try_acquire()

    def test_a_proxy_needs_an_async_test(redisson_proxy):
        pass
"""


def test_pytest_asyncio_in_strict_mode_beside_anyio_and_plain_tests(
    pytester: pytest.Pytester,
) -> None:
    if find_spec("trio") is None:
        unavailable("trio is not installed")
    pytester.makepyfile(used=USES)
    marked = "import pytest\npytestmark = pytest.mark.asyncio\n"
    (pytester.path / "test_asyncio.py").write_text(marked + dedent(OF_ASYNCIO))
    pytester.makepyfile(test_anyio=OF_ANYIO, test_plain=PLAIN)
    pytester.makepyfile(
        test_both="""
        import pytest
        from used import use

        @pytest.mark.asyncio
        async def test_of_asyncio(redisson_client, redisson_proxy):
            await use(redisson_client, redisson_proxy)

        @pytest.mark.anyio
        async def test_of_anyio(redisson_client, redisson_proxy, anyio_backend):
            await use(redisson_client, redisson_proxy)
        """
    )
    result = run(pytester)
    # The errors: a proxy in a plain test, and a test on trio.
    result.assert_outcomes(passed=8 + 2 + 2 + 2, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "*this test runs on trio: select asyncio with*",
            "*redisson_proxy needs the event loop of an async test*",
        ]
    )


def test_pytest_asyncio_in_auto_mode(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(used=USES, test_asyncio=OF_ASYNCIO)
    pytester.makepyfile(
        test_both="""
        import pytest

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_that_both_plugins_claim(redisson_client):
            pass
        """,
        test_left="""
        import asyncio
        from redisson_py.testing import until_waiting

        tasks = []

        async def test_holds(redisson_client):
            await redisson_client.get_lock("orders:17").acquire()

        async def test_waits(redisson_client):
            lock = redisson_client.get_lock("orders:17")
            lease = await lock.acquire()
            tasks.append(asyncio.create_task(lock.acquire()))
            await until_waiting(lock)
            await redisson_client.get_semaphore("s", 1).acquire()

        async def test_is_clean(redisson_client):
            assert not await redisson_client.get_lock("orders:17").locked()
            assert await redisson_client.get_semaphore("s", 5).available() == 5
        """,
    )
    result = run(pytester, ini=AUTO)
    result.assert_outcomes(passed=8 + 3, errors=1 + 2)
    result.stdout.fnmatch_lines(
        [
            "*set asyncio_mode to strict, or remove anyio's mark*",
            "*the test left redisson_client in use (leases held: 1, tasks waiting: 0)*",
            "*closing while still holding lock 'orders:17'*",
            "*the test left redisson_client in use (leases held: 2, tasks waiting: 1)*",
        ]
    )


def test_anyio_and_plain_tests_without_pytest_asyncio(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(used=USES, test_anyio=OF_ANYIO, test_plain=PLAIN)
    result = run(pytester, "-p", "no:asyncio", ini="[pytest]\nfilterwarnings = error\n")
    result.assert_outcomes(passed=2 + 2, errors=1)
    result.stdout.fnmatch_lines(["*redisson_proxy needs the event loop of an async test*"])


def test_one_loop_for_the_session_by_configuration(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(used=USES)
    pytester.makepyfile(
        """
        from used import use

        async def test_first(redisson_client, redisson_proxy):
            await use(redisson_client, redisson_proxy)

        async def test_second(redisson_client, redisson_proxy):
            await use(redisson_client, redisson_proxy)

        def test_plain(redisson_client):
            assert redisson_client.statistics().connections == 0
        """
    )
    session = AUTO.replace("scope = function", "scope = session")
    ini = session + "    asyncio_default_test_loop_scope = session\n"
    run(pytester, ini=ini).assert_outcomes(passed=3)


def test_xdist_workers_have_servers_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pathlib import Path

        @pytest.mark.parametrize("number", range(6))
        async def test_it(redisson_client, redisson_url, number, worker_id):
            Path(f"url-{worker_id}").write_text(redisson_url)
            semaphore = redisson_client.get_semaphore("s", 3)
            # Would be fewer, or there would be no semaphore, if workers shared the database.
            permits = [await semaphore.acquire() for _ in range(3)]
            assert await semaphore.available() == 0
            for permit in permits:
                await permit.release()
        """
    )
    result = run(pytester, "-n", "2", "--dist", "each", ini=AUTO)
    result.assert_outcomes(passed=12)
    urls = {file.read_text() for file in pytester.path.glob("url-*")}
    assert len(urls) == 2


def test_a_suite_that_does_not_use_it_imports_and_sees_nothing_of_it(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        """
        import sys
        from pathlib import Path

        def pytest_collection_finish(session):
            name = "with" if session.config.pluginmanager.hasplugin("redisson_py") else "without"
            Path(name).write_text("\\n".join(sorted(sys.modules)))
        """
    )
    pytester.makepyfile(
        test_plain="def test_it(): pass", test_user="def test_it(redisson_url): pass"
    )
    result = run(pytester, "test_plain.py")
    result.assert_outcomes(passed=1)
    assert "redisson" not in "\n".join(
        row for row in result.outlines if not row.startswith("plugins:")
    )
    assert not result.errlines
    off = run(pytester, "-p", "no:redisson_py")
    off.assert_outcomes(passed=1, errors=1)
    off.stdout.fnmatch_lines(["*fixture 'redisson_url' not found*"])
    modules = [set((pytester.path / name).read_text().splitlines()) for name in ("with", "without")]
    assert modules[0] - modules[1] == {"_redisson_py_pytest"}
    assert "redisson_py" not in modules[0]
