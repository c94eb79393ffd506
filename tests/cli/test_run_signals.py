"""`redisson-py run` and signals: while it waits, while the command runs, at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.cli.processes import (
    PATIENCE,
    STUBBORN,
    WAITS,
    StartCommandLine,
    is_running,
    is_stopped,
    until_gone,
)
from tests.cli.test_run import waits_for_messages
from tests.support.waiting import until, until_async

PASSED_ON = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH")

#: Forks; parent and child print each signal they get. They end when their input does. A handler of
#: Python's does not run if its signal comes just before a read: the wakeup descriptor ends that.
PRINTS_SIGNALS = f"""
import os, select, signal
role = "child" if os.fork() == 0 else "parent"
received, wakeup = os.pipe()
os.set_blocking(wakeup, False)
signal.set_wakeup_fd(wakeup)
for each in {PASSED_ON}:
    signal.signal(getattr(signal, each), lambda *_: None)
os.write(1, f"{{role}}\\n".encode())
while True:
    ready, _, _ = select.select([0, received], [], [])
    if received in ready:
        for number in os.read(received, 100):
            os.write(1, f"{{role}} {{number}}\\n".encode())
    elif not os.read(0, 1):
        break
"""


async def test_signals_are_passed_on_to_the_command_and_what_it_has_started(
    command_line: StartCommandLine,
) -> None:
    run = await command_line("run", "k", "--", sys.executable, "-c", PRINTS_SIGNALS)
    assert {await run.read_row(), await run.read_row()} == {"parent", "child"}
    for each in PASSED_ON:
        number = getattr(signal, each)
        run.send_signal(number)
        assert {await run.read_row(), await run.read_row()} == {
            f"parent {number}",
            f"child {number}",
        }
    assert await run.end("") == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda each: each.name)
async def test_a_command_that_a_signal_ends_has_the_status_that_shells_have(
    command_line: StartCommandLine, redis: Redis, number: signal.Signals
) -> None:
    run = await command_line("run", "k", "--", *WAITS)
    await run.read_row()
    run.send_signal(number)
    assert await run.end() == (128 + number, "", "")
    assert not await redis.exists("k")


async def test_a_command_that_ignores_signals_keeps_its_lock(
    command_line: StartCommandLine, client: Redisson
) -> None:
    run = await command_line("run", "k", "--", *STUBBORN)
    parent, child = await run.numbers()
    for _ in range(2):
        run.send_signal(signal.SIGTERM)
        run.send_signal(signal.SIGINT)
        assert await client.get_lock("k").locked()
    assert is_running(parent)
    assert is_running(child)
    os.killpg(parent, signal.SIGKILL)
    assert (await run.end())[0] == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda each: each.name
)
async def test_a_signal_ends_the_wait_with_nothing_held(
    command_line: StartCommandLine, client: Redisson, tmp_path: Path, number: signal.Signals
) -> None:
    trace = tmp_path / "trace"
    lock = client.get_lock("k")
    async with lock:
        run = await command_line("run", "k", "--", "touch", str(trace))
        await until_async(lambda: waits_for_messages(client), PATIENCE)
        run.send_signal(number)
        assert await run.end() == (128 + number, "", "")
    assert not await lock.locked()
    assert not trace.exists()


async def test_signals_at_any_moment_leave_nothing_held_and_no_command_behind(
    command_line: StartCommandLine, redis: Redis
) -> None:
    """Sent at moments that are spread over the life of a run, from its first imports on."""
    seen = set()
    for moment in range(14):
        run = await command_line("run", "k", "--", *WAITS)
        await asyncio.sleep(moment * 0.05)
        run.send_signal(signal.SIGTERM)
        status, output, errors = await run.end()
        # The plain signal: it came before Python had set up anything.
        assert status in (-signal.SIGTERM, 128 + signal.SIGTERM), (status, errors)
        assert errors == ""
        assert not await redis.exists("k")
        for pid in output.split():
            await until_gone(int(pid))
        seen.add((status, bool(output)))
    assert (-signal.SIGTERM, False) in seen


async def test_signals_while_it_ends_do_not_change_the_exit_status(
    command_line: StartCommandLine, redis: Redis
) -> None:
    for _ in range(5):
        run = await command_line(
            "run", "k", "--", "sh", "-c", "trap '' TERM USR1; echo up; read line; exit 7"
        )
        await run.read_row()
        run.write("\n")
        while run.running:
            run.send_signal(signal.SIGUSR1)
            run.send_signal(signal.SIGTERM)
            # More than a few hundred that nobody has looked at are too many for Python.
            await asyncio.sleep(0.01)
        assert await run.end() == (7, "", "")
        assert not await redis.exists("k")


@pytest.mark.parametrize(
    "before",
    [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])",
    ],
    ids=["ignored", "blocked"],
)
async def test_the_end_of_the_command_is_noticed_with_any_inherited_sigchld(
    command_line: StartCommandLine, before: str
) -> None:
    launch = f"import os, signal, sys; {before}; os.execv(sys.argv[1], sys.argv[1:])"
    run = await command_line(
        *("run", "k", "--", "sh", "-c", "exit 3"), wrapped_in=(sys.executable, "-S", "-c", launch)
    )
    assert await run.end() == (3, "", "")


async def test_what_we_were_started_to_ignore_is_ignored(command_line: StartCommandLine) -> None:
    run = await command_line(
        *("run", "k", "--", "sh", "-c", "kill -HUP $$; echo $$; read line"),
        wrapped_in=("sh", "-c", 'trap "" HUP; exec "$@"', "-"),
    )
    await run.read_row()
    run.send_signal(signal.SIGHUP)
    assert await run.end("\n") == (0, "", "")


async def test_a_stopped_command_keeps_its_lock_where_there_is_no_terminal(
    command_line: StartCommandLine, redis: Redis
) -> None:
    run = await command_line("run", "k", "--lease", "3", "--", *WAITS)
    (command,) = await run.numbers()
    run.send_signal(signal.SIGTSTP)
    await until(lambda: is_stopped(command), PATIENCE)
    left = await redis.pttl("k")

    async def is_renewed() -> bool:
        nonlocal left
        before, left = left, await redis.pttl("k")
        assert left != -2, "the lease has run out"
        return left > before + 500

    for _ in range(3):
        await until_async(is_renewed, PATIENCE)
    assert is_stopped(command)
    run.send_signal(signal.SIGCONT)
    await until(lambda: not is_stopped(command), PATIENCE)
    assert await run.end("\n") == (0, "", "")
