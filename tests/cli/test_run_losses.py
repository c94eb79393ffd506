"""`redisson-py run` when its lock is lost, Redis is away, or it is killed itself."""

from __future__ import annotations

import os
import signal

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.cli.processes import (
    PATIENCE,
    STUBBORN,
    WAITS,
    StartCommandLine,
    children_of,
    is_guard,
    is_running,
    kill_group,
    until_gone,
)
from tests.fixtures.redis_server import ProxyFactory
from tests.support.waiting import until

#: Renewed each second, so a loss is learned of then.
SHORT = ("--lease", "3")


async def test_a_loss_ends_the_command_and_what_it_has_started(
    command_line: StartCommandLine, client: Redisson
) -> None:
    script = "sleep 600 & trap 'echo got it; exit 0' TERM; echo $$ $!; wait"
    run = await command_line("run", "k", *SHORT, "--", "sh", "-c", script)
    pids = await run.numbers()
    assert await client.get_lock("k").force_release()
    status, output, errors = await run.end()
    assert (status, output) == (74, "got it\n")
    assert errors.startswith("redisson-py: lock 'k' was lost after ")
    assert errors.endswith("; sh got SIGTERM and ended with exit status 0\n")
    assert "taken" in errors
    assert errors.count("\n") == 1
    assert not any(map(is_running, pids))


async def test_what_ignores_sigterm_is_killed_after_the_grace(
    command_line: StartCommandLine, client: Redisson
) -> None:
    run = await command_line("run", "k", *SHORT, "--grace", "0.5", "--", *STUBBORN)
    pids = await run.numbers()
    await client.get_lock("k").force_release()
    status, _, errors = await run.end()
    assert status == 74
    assert errors.endswith("; sh got SIGTERM, then SIGKILL after 0.5 s, and ended by SIGKILL\n")
    await until_gone(*pids)


async def test_a_child_that_survives_the_command_is_killed_too(
    command_line: StartCommandLine, client: Redisson
) -> None:
    script = "(trap '' TERM; exec sleep 600) & echo $$ $!; wait"
    run = await command_line("run", "k", *SHORT, "--grace", "1", "--", "sh", "-c", script)
    parent, child = await run.numbers()
    await client.get_lock("k").force_release()
    status, _, errors = await run.end()
    assert status == 74
    assert errors.endswith("then SIGKILL after 1 s, and ended by SIGTERM\n")
    await until_gone(parent, child)


async def test_a_stopped_command_is_ended_too(
    command_line: StartCommandLine, client: Redisson
) -> None:
    run = await command_line("run", "k", *SHORT, "--grace", str(PATIENCE), "--", *WAITS)
    (command,) = await run.numbers()
    os.kill(command, signal.SIGSTOP)
    await client.get_lock("k").force_release()
    status, _, errors = await run.end()
    assert status == 74
    assert errors.endswith("; sh got SIGTERM and ended by SIGTERM\n")


async def test_signals_are_passed_on_during_the_grace(
    command_line: StartCommandLine, client: Redisson
) -> None:
    script = "trap 'echo ending' TERM; trap 'exit 3' INT; echo up; while :; do sleep 0.05; done"
    run = await command_line(
        *("run", "k", *SHORT, "--grace", str(PATIENCE), "--", "sh", "-c", script)
    )
    assert await run.read_row() == "up"
    await client.get_lock("k").force_release()
    assert await run.read_row() == "ending"
    run.send_signal(signal.SIGINT)
    status, _, errors = await run.end()
    assert status == 74
    assert errors.endswith("; sh got SIGTERM and ended with exit status 3\n")


async def test_a_loss_that_the_release_discovers_is_one_too(
    command_line: StartCommandLine, redis: Redis
) -> None:
    run = await command_line("run", "k", "--", *WAITS)
    await run.read_row()
    await redis.delete("k")
    status, _, errors = await run.end("\n")
    assert status == 74
    assert errors.startswith("redisson-py: lock 'k' was lost after ")
    assert errors.endswith("; sh had ended with exit status 0\n")


# Outages.


@pytest.fixture
def link(one_server: None, proxy: ProxyFactory) -> ProxyFactory:
    """Proxies that a URL names; a cluster or a sentinel would lead past them."""
    return proxy


async def test_an_outage_longer_than_the_lease_is_a_loss(
    command_line: StartCommandLine, link: ProxyFactory
) -> None:
    proxy = await link()
    run = await command_line("run", "k", *SHORT, "--", *WAITS, url=proxy.url)
    await run.read_row()
    proxy.black_hole()
    status, _, errors = await run.end()
    assert status == 74
    assert "expired: no renewal was confirmed in time" in errors
    assert errors.endswith("; sh got SIGTERM and ended by SIGTERM\n")
    assert errors.count("\n") == 1


async def test_a_release_without_an_answer_keeps_the_status_of_the_command(
    command_line: StartCommandLine, link: ProxyFactory
) -> None:
    proxy = await link()
    run = await command_line(
        *("run", "k", "--", "sh", "-c", "echo up; read line; exit 3"), url=proxy.url
    )
    await run.read_row()
    proxy.black_hole()
    status, _, errors = await run.end("\n")
    assert status == 3
    assert "release" in errors
    assert errors.count("\n") == 1


# What it leaves behind.


async def test_the_lock_is_released_when_the_command_exits_but_a_child_lives_on(
    command_line: StartCommandLine, redis: Redis
) -> None:
    script = "sleep 600 </dev/null >/dev/null 2>&1 & echo $$ $!"
    run = await command_line("run", "k", "--", "sh", "-c", script)
    group, child = await run.numbers()
    try:
        assert await run.end() == (0, "", "")
        assert not await redis.exists("k")
        assert is_running(child)
    finally:
        kill_group(group)


async def test_the_command_of_a_run_that_is_killed_is_ended(
    command_line: StartCommandLine, redis: Redis
) -> None:
    script = "sleep 600 & trap 'exit 0' TERM; echo $$ $!; wait"
    run = await command_line("run", "k", "--", "sh", "-c", script)
    pids = await run.numbers()
    # At once: it has been guarded since before it was the command.
    run.send_signal(signal.SIGKILL)
    await until_gone(*pids)
    # It still protects the command's last moments, and ends with its lease.
    assert await redis.pttl("k") > 0


async def test_so_is_one_that_ignores_sigterm_as_its_guard_does(
    command_line: StartCommandLine,
) -> None:
    script = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    run = await command_line("run", "k", "--grace", "1", "--", "sh", "-c", script)
    pids = await run.numbers()
    await until(lambda: any(map(is_guard, children_of(run.pid))), PATIENCE)
    # As when a service manager stops every process of a service.
    for each in children_of(run.pid):
        os.kill(each, signal.SIGTERM)
    assert any(map(is_guard, children_of(run.pid)))
    run.send_signal(signal.SIGKILL)
    await until_gone(*pids)


async def test_a_grace_that_is_longer_than_a_shell_can_count_is_long(
    command_line: StartCommandLine,
) -> None:
    script = "trap 'read line; sleep 0.5; echo ended; exit 0' TERM;"
    script += " echo up; while :; do sleep 0.05; done"
    run = await command_line("run", "k", "--grace", "1e30", "--", "sh", "-c", script)
    assert await run.read_row() == "up"
    run.send_signal(signal.SIGKILL)
    run.write("\n")
    assert await run.read_row() == "ended"
