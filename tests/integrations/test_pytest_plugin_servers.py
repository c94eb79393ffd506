"""The servers of the pytest plugin: mended, ended with the run, or the user's own."""

from __future__ import annotations

import asyncio
import signal

import pytest
import redis

from redisson_py.pytest_plugin import database
from redisson_py.testing import EmbeddedServer
from tests.integrations.suites import AUTO, NOTE, interrupt, noted, run, started
from tests.support.waiting import until, until_async

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.also("floor"), pytest.mark.timeout(500)]


async def test_a_cluster_is_mended_and_emptied_and_ends_after_a_failing_test(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(noting=NOTE)
    pytester.makepyfile(
        """
        from noting import note
        from redisson_py import Redisson

        async def test_breaks_it(redisson_cluster):
            async with Redisson.from_url(redisson_cluster.url) as client:
                await client.get_latch("k", 3).try_set_count(3)
            old = await redisson_cluster.master_of("k")
            await redisson_cluster.kill(old)
            await redisson_cluster.freeze(await redisson_cluster.master_of("a"))

        async def test_has_a_whole_one(redisson_cluster):
            assert all(node.running and not node.paused for node in redisson_cluster.nodes)
            async with Redisson.from_url(redisson_cluster.url) as client:
                assert await client.get_latch("k").count() == 0
                for name in ("a", "b", "k"):
                    async with client.get_lock(name):
                        pass

        async def test_adds_a_node(redisson_cluster):
            await redisson_cluster.add_node()

        async def test_has_six(redisson_cluster):
            assert len(redisson_cluster.nodes) == 6

        async def test_fails(redisson_client, redisson_url, redisson_cluster):
            note(redisson_url, redisson_cluster.url)
            await redisson_client.get_lock("k").acquire()
            assert False
        """
    )
    run(pytester, ini=AUTO).assert_outcomes(passed=4, failed=1, errors=1)
    await _all_ended(pytester, 7)


def test_a_server_that_a_test_ended_or_locked_is_started_again(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import redis

        def test_ends_it(redisson_url):
            with redis.Redis.from_url(redisson_url) as server:
                server.set("k", "1")
                server.save()
                server.shutdown(nosave=True)

        async def test_has_another(redisson_client):
            assert await redisson_client.get_latch("k").count() == 0

        def test_sets_a_password(redisson_url):
            with redis.Redis.from_url(redisson_url) as server:
                server.config_set("requirepass", "secret")

        async def test_needs_none(redisson_client):
            async with redisson_client.get_lock("k"):
                pass
        """
    )
    run(pytester, ini=AUTO).assert_outcomes(passed=4)


def test_sentinels_are_new_where_the_old_ones_were_broken(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from redisson_py import Redisson

        seen = []

        async def test_uses_it(redisson_sentinel):
            seen.append(redisson_sentinel)
            async with Redisson.from_url(redisson_sentinel.url) as client:
                await client.get_latch("k", 3).try_set_count(3)

        async def test_has_the_same_and_fails_over(redisson_sentinel):
            assert redisson_sentinel is seen[0]
            async with Redisson.from_url(redisson_sentinel.url) as client:
                assert await client.get_latch("k").count() == 0
            await redisson_sentinel.failover()

        async def test_has_another(redisson_sentinel):
            assert redisson_sentinel is not seen[0]
            assert not any(node.running for node in seen[0].nodes)
            assert await redisson_sentinel.master() is redisson_sentinel.nodes[0]
        """
    )
    run(pytester, ini=AUTO).assert_outcomes(passed=3)


def test_a_server_that_is_not_there_is_an_error_that_says_what_to_install(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDISSON_PY_SERVER", str(pytester.path / "no-server"))
    pytester.makepyfile(
        "def test_one(redisson_url): pass\n"
        "def test_cluster(redisson_cluster): pass\n"
        "def test_sentinel(redisson_sentinel): pass\n"
    )
    result = run(pytester)
    result.assert_outcomes(errors=3)
    assert str(result.stdout).count("pip install 'redisson-py[pytest]'") >= 3
    assert "During handling of the above exception" not in str(result.stdout)


async def test_no_server_is_left_by_ctrl_c(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(noting=NOTE)
    pytester.makepyfile(
        """
        import asyncio, pytest
        from noting import note

        @pytest.mark.asyncio
        async def test_it(redisson_client, redisson_url, redisson_sentinel):
            async with redisson_client.get_lock("k"):
                note(redisson_url, redisson_sentinel.url)
                await asyncio.Event().wait()
        """
    )
    process = started(pytester)
    try:
        await until(lambda: noted(pytester.path), 200)
        assert interrupt(process) == pytest.ExitCode.INTERRUPTED
    finally:
        process.kill()
        process.wait()
    await _all_ended(pytester, 4)


@pytest.mark.parametrize("args", [(), ("-n", "1")], ids=["pytest itself", "a worker of xdist"])
async def test_no_server_is_left_by_a_crash(
    pytester: pytest.Pytester, args: tuple[str, ...]
) -> None:
    pytester.makepyfile(noting=NOTE)
    pytester.makepyfile(
        """
        import os, signal
        import pytest
        from noting import note

        def test_it(redisson_url, redisson_sentinel):
            note(redisson_url, redisson_sentinel.url)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    result = run(pytester, *args)
    assert result.ret == (1 if args else -signal.SIGKILL)
    await _all_ended(pytester, 4)


async def _all_ended(pytester: pytest.Pytester, count: int) -> None:
    """Return when none of the servers that a suite has noted answers any more."""
    addresses = noted(pytester.path)
    assert len(addresses) == count

    async def answers(host: str, port: int) -> bool:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            return False
        writer.close()
        return True

    async def all_silent() -> bool:
        return not any([await answers(*address) for address in addresses])

    await until_async(all_silent, 30)


def test_the_users_server_is_not_touched_without_leave(
    pytester: pytest.Pytester, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(own_server, "precious")
    pytester.makepyfile("def test_it(redisson_url): pass")
    monkeypatch.setenv("REDISSON_PY_TEST_URL", own_server.url)
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*If nobody else uses the one of REDISSON_PY_TEST_URL*Nothing was deleted*"]
    )
    assert _has(own_server, "precious")


def test_of_the_users_server_one_database_is_emptied(
    pytester: pytest.Pytester, own_server: EmbeddedServer
) -> None:
    _set(own_server, "precious")
    _set(own_server, "other", database=5)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("time", [1, 2])
        @pytest.mark.asyncio
        async def test_it(redisson_client, redisson_url, time):
            assert redisson_url.endswith("/3")
            assert await redisson_client.get_semaphore("s", time).available() == time
        """
    )
    url = f"{own_server.url}/3"
    run(pytester, "--redisson-url", url, "--redisson-flush").assert_outcomes(passed=2)
    assert _has(own_server, "precious")
    assert _has(own_server, "other", database=5)


def test_workers_need_databases_of_their_own(
    pytester: pytest.Pytester, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        def test_it(redisson_url, worker_id):
            assert redisson_url.endswith("/" + worker_id.removeprefix("gw"))
        """
    )
    options = ("-n", "2", "--dist", "each", "--redisson-flush", "--redisson-url")
    run(pytester, *options, own_server.url + "/{worker}").assert_outcomes(passed=2)
    config = pytester.parseconfig("--redisson-flush", "--redisson-url", own_server.url)
    # What a worker has.
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    with pytest.raises(
        pytest.fail.Exception, match=r"2 workers would empty each other's database.*{worker}"
    ):
        with database(config):
            pass


def test_a_server_that_cannot_be_emptied_is_an_error_without_the_password(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDISSON_PY_TEST_URL", "redis://:geheim@127.0.0.1:1/0")
    pytester.makepyfile("def test_it(redisson_url): pass")
    result = run(pytester, "--redisson-flush", "-l", "--full-trace")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*cannot empty the database of REDISSON_PY_TEST_URL*"])
    assert "geheim" not in str(result.stdout) + str(result.stderr)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://:geheim@[x:1/0", "cannot empty"),
        ("redis://:geheim@h:geheim/0", "cannot empty"),
        ("redis+cluster://:geheim@h:1", "--redisson-url must begin with redis:// or rediss://"),
        ("geheim", "--redisson-url must begin with redis:// or rediss://"),
    ],
)
def test_a_url_that_is_none_is_an_error_without_the_password(
    pytester: pytest.Pytester, url: str, why: str
) -> None:
    config = pytester.parseconfig("--redisson-flush", "--redisson-url", url)
    with pytest.raises(pytest.fail.Exception, match=why) as caught:
        with database(config) as found:
            found.empty()
    assert "geheim" not in str(caught.value)


def _set(server: EmbeddedServer, key: str, database: int = 0) -> None:
    with _plain(server, database) as plain:
        plain.set(key, "1")


def _has(server: EmbeddedServer, key: str, database: int = 0) -> bool:
    with _plain(server, database) as plain:
        return bool(plain.exists(key))


def _plain(server: EmbeddedServer, database: int) -> redis.Redis:
    return redis.Redis.from_url(f"{server.url}/{database}")
