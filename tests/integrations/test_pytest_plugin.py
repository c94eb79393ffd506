"""The fixtures of the pytest plugin, in suites that other plugins run."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from tests.integrations.suites import AUTO, STRICT, run

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

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


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_pytest_asyncio(pytester: pytest.Pytester, mode: str) -> None:
    pytester.makepyfile(used=USES)
    marked = "" if mode == "auto" else "@pytest.mark.asyncio"
    pytester.makepyfile(
        f"""
        import pytest, pytest_asyncio
        from used import use

        {marked}
        async def test_first(redisson_client, redisson_proxy):
            await use(redisson_client, redisson_proxy)

        {marked}
        async def test_second(redisson_client, redisson_proxy):
            await use(redisson_client, redisson_proxy)

        @pytest_asyncio.fixture
        async def service(redisson_client):
            lease = await redisson_client.get_lock("service").acquire()
            yield lease
            await lease.release()

        {marked}
        async def test_a_fixture_of_the_user_ends_before_the_client(service):
            service.check()
        """
    )
    run(pytester, ini=AUTO if mode == "auto" else STRICT).assert_outcomes(passed=3)


@pytest.mark.parametrize("scope", ["module", "session"])
def test_the_loop_scope_of_the_test_is_that_of_its_client(
    pytester: pytest.Pytester, scope: str
) -> None:
    pytester.makepyfile(used=USES)
    pytester.makepyfile(
        f"""
        import asyncio, pytest
        from used import use

        loops = set()

        @pytest.mark.asyncio(loop_scope="{scope}")
        class TestScope:
            async def test_first(self, redisson_client, redisson_proxy):
                loops.add(asyncio.get_running_loop())
                await use(redisson_client, redisson_proxy)

            async def test_second(self, redisson_client, redisson_proxy):
                loops.add(asyncio.get_running_loop())
                await use(redisson_client, redisson_proxy)
                assert len(loops) == 1
        """
    )
    run(pytester).assert_outcomes(passed=2)


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


@pytest.mark.parametrize("others", [(), ("-p", "no:asyncio")], ids=["beside asyncio", "alone"])
def test_anyio(pytester: pytest.Pytester, others: tuple[str, ...]) -> None:
    pytester.makepyfile(used=USES)
    pytester.makepyfile(
        """
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
    )
    ini = "[pytest]\nfilterwarnings = error\n" if others else STRICT
    run(pytester, *others, ini=ini).assert_outcomes(passed=2)


def test_both_plugins_in_one_module(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(used=USES)
    pytester.makepyfile(
        """
        import pytest
        from used import use

        @pytest.mark.asyncio
        async def test_of_asyncio(redisson_client, redisson_proxy):
            await use(redisson_client, redisson_proxy)

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_of_anyio(redisson_client, redisson_proxy, anyio_backend):
            await use(redisson_client, redisson_proxy)
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_a_test_that_both_plugins_claim_is_an_error_that_says_so(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_of_both(redisson_client):
            pass
        """
    )
    result = run(pytester, ini=AUTO)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*set asyncio_mode to strict, or leave anyio's mark out*"])


def test_trio_is_refused_with_what_to_do(pytester: pytest.Pytester) -> None:
    pytest.importorskip("trio")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.anyio
        async def test_it(redisson_client):
            await redisson_client.ping()
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*this is a test on trio: choose the backend*"])


def test_uvloop(pytester: pytest.Pytester) -> None:
    pytest.importorskip("uvloop")
    pytester.makepyfile(used=USES)
    pytester.makeconftest(
        """
        import uvloop

        def pytest_asyncio_loop_factories(config, item):
            return {"uvloop": uvloop.new_event_loop}
        """
    )
    pytester.makepyfile(
        """
        import asyncio, pytest, uvloop
        from used import use

        @pytest.mark.asyncio
        async def test_of_asyncio(redisson_client, redisson_proxy):
            assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
            await use(redisson_client, redisson_proxy)

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
        async def test_of_anyio(redisson_client, redisson_proxy):
            assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
            await use(redisson_client, redisson_proxy)
        """
    )
    run(pytester).assert_outcomes(passed=2)


@pytest.mark.parametrize("others", [(), ("-p", "no:asyncio")], ids=["asyncio", "no plugin"])
def test_plain_tests_have_the_url_and_a_client(
    pytester: pytest.Pytester, others: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        """
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
        """
    )
    ini = "[pytest]\nfilterwarnings = error\n" if others else STRICT
    run(pytester, *others, ini=ini).assert_outcomes(passed=2)


def test_a_proxy_needs_an_async_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(redisson_proxy): pass")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*redisson_proxy*needs an async test*"])


def test_what_a_test_leaves_held_is_its_error_and_not_the_next_ones(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
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
        """
    )
    result = run(pytester, ini=AUTO)
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(
        [
            "*the test left redisson_client in use (leases held: 1, tasks waiting: 0)*",
            "*closing while still holding lock 'orders:17'*",
            "*the test left redisson_client in use (leases held: 2, tasks waiting: 1)*",
        ]
    )


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


def test_xdist_by_file(pytester: pytest.Pytester) -> None:
    suite = """
        async def test_it(redisson_client):
            async with redisson_client.get_lock("k"):
                pass
    """
    pytester.makepyfile(test_one=suite, test_two=suite)
    run(pytester, "-n", "2", "--dist", "loadfile", ini=AUTO).assert_outcomes(passed=2)
