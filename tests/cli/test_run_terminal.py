"""`redisson-py run` in a terminal: who may read it, Ctrl-C and Ctrl-Z, with a real shell."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.cli.processes import PATIENCE, is_running, is_stopped, parent_of, until_gone
from tests.cli.terminals import Terminal
from tests.cli.test_run import waits_for_messages
from tests.fixtures.redis_server import unavailable
from tests.support.waiting import until, until_async

RUN = (sys.executable, "-m", "redisson_py", "run", "k")
CTRL_C, CTRL_Z = "\x03", "\x1a"

#: Says its process id, repeats what is typed, and ends with an empty line. What it prints is not
#: what is typed, which the terminal echoes.
REPEATS = 'echo pid=$$; while read word && [ -n "$word" ]; do echo "<$word>"; done'

#: Counts; ends on SIGTERM.
COUNTS = """import os, signal, sys, time
def end(*_): os.write(1, b"ended %d\\n" % 42); sys.exit(1)
signal.signal(signal.SIGTERM, end)
print(f"pid={os.getpid()}", flush=True)
for n in range(10000): os.write(1, f"count {n}\\n".encode()); time.sleep(0.05)"""
#: Sleeps. A shell that is told to stop just before it starts `sleep` waits for it all the same.
SLEEPS = (
    "import os, sys, time; "
    'print(f"pid={os.getpid()}", file=sys.stderr, flush=True); time.sleep(600)'
)
PROMPT = r"\n\$ $"

StartTerminal = Callable[..., Terminal]


@pytest_asyncio.fixture
async def terminal(user_url: str) -> AsyncIterator[StartTerminal]:
    """Start the leader of a session in a terminal of its own: `terminal("bash", "-i")`."""
    with ExitStack() as stack:

        def start(*command: str) -> Terminal:
            started = Terminal(
                command,
                (80, 24),
                REDISSON_URL=user_url,
                PS1="$ ",
                TERM="dumb",
                REDISSON_PY=f"{sys.executable} -m redisson_py",
            )
            stack.callback(started.close)
            return started

        yield start


@pytest_asyncio.fixture
async def shell(terminal: StartTerminal) -> Terminal:
    """An interactive shell."""
    if shutil.which("bash") is None:
        unavailable("there is no bash")
    return terminal("bash", "--norc", "--noprofile", "--noediting", "-i")


def shell_word(script: str) -> str:
    return "'" + script.replace("'", "'\\''") + "'"


def run_in(shell: Terminal, script: str, options: str = "", around: str = "{}") -> None:
    """Type a run of a script."""
    command = f"$REDISSON_PY run k {options} -- sh -c {shell_word(script)}"
    shell.type(around.format(command) + "\n")


async def pid_of(screen: Terminal) -> int:
    return int((await screen.shows(r"pid=(\d+)"))[1])


async def test_the_command_has_the_terminal(shell: Terminal) -> None:
    run_in(shell, REPEATS)
    command = await pid_of(shell)
    await until(lambda: shell.foreground == command, PATIENCE)
    shell.type("word\n")
    await shell.shows("<word>")
    shell.type("\necho status=$?\n")
    await shell.shows("status=0")


async def test_a_closed_input_is_no_terminal(shell: Terminal, redis: Redis) -> None:
    run_in(shell, "exit 3", around="{} <&-")
    shell.type("echo status=$?\n")
    await shell.shows("status=3")
    assert not await redis.exists("k")


async def test_in_a_pipeline_the_command_gets_the_terminal_when_it_reads_it(
    shell: Terminal,
) -> None:
    run_in(shell, f"{{ {REPEATS}; }} </dev/tty", around="true | {} | cat")
    command = await pid_of(shell)
    await until(lambda: shell.foreground == command, PATIENCE)
    shell.type("word\n")
    await shell.shows("<word>")
    shell.type("\necho status=${PIPESTATUS[1]}\n")
    await shell.shows("status=0")


async def test_until_then_the_others_in_a_pipeline_have_it(shell: Terminal) -> None:
    reader = "sh -c 'echo ready; read word </dev/tty; echo \"<$word>\"'"
    run_in(shell, f"exec {sys.executable} -c {shell_word(SLEEPS)}", around=f"{{}} | {reader}")
    await pid_of(shell)
    shell.type("word\n")
    await shell.shows("<word>")
    shell.type(CTRL_C)
    await shell.shows(PROMPT)
    shell.type("echo status=${PIPESTATUS[0]}\n")
    await shell.shows(f"status={128 + signal.SIGINT}")


async def test_ctrl_c_interrupts_the_command_once(shell: Terminal, redis: Redis) -> None:
    run_in(shell, "trap 'echo interrupted' INT; echo pid=$$; read word; read word; exit 5")
    await pid_of(shell)
    shell.type(CTRL_C)
    await shell.shows("interrupted")
    shell.type("\n\necho status=$?\n")
    await shell.shows("status=5")
    assert shell.text.count("interrupted") == 2  # one of them was typed
    assert not await redis.exists("k")


@pytest.mark.parametrize("script", ["read word", "exec sleep 600"])
async def test_ctrl_c_ends_a_script_that_runs_us(
    shell: Terminal, tmp_path: Path, script: str
) -> None:
    file = tmp_path / "script"
    file.write_text(
        f"for n in 1 2 3; do $REDISSON_PY run k -- sh -c 'echo pid=$$; {script}'; done\n"
        "echo went on\n"
    )
    shell.type(f"bash {file}\n")
    command = await pid_of(shell)
    if script == "read word":
        await until(lambda: shell.foreground == command, PATIENCE)
    shell.type(CTRL_C)
    await shell.shows(PROMPT)
    shell.type("echo status=$?\n")
    await shell.shows(f"status={128 + signal.SIGINT}")
    assert "went on" not in shell.text
    await until_gone(command)


async def test_ctrl_c_ends_a_loop_that_waits_for_the_lock(
    shell: Terminal, client: Redisson, tmp_path: Path
) -> None:
    file = tmp_path / "script"
    file.write_text("$REDISSON_PY run k -- echo ran\necho went on\n")
    async with client.get_lock("k"):
        shell.type(f"bash {file}\n")
        await until_async(lambda: waits_for_messages(client), PATIENCE)
        shell.type(CTRL_C)
        await shell.shows(PROMPT)
        shell.type("echo status=$?\n")
        await shell.shows(f"status={128 + signal.SIGINT}")
    assert "went on" not in shell.text


async def test_ctrl_z_stops_it_all_and_fg_continues_it(shell: Terminal, redis: Redis) -> None:
    run_in(shell, REPEATS)
    command = await pid_of(shell)
    shell.type("first\n")
    await shell.shows("<first>")
    shell.type(CTRL_Z)
    await shell.shows("Stopped")
    assert await redis.exists("k")
    shell.type("fg\n")
    await until(lambda: shell.foreground == command, PATIENCE)
    shell.type("word\n")
    await shell.shows("<word>")
    shell.type("\necho status=$?\n")
    await shell.shows("status=0")


async def test_a_run_in_the_background_stops_when_it_reads_the_terminal(shell: Terminal) -> None:
    run_in(shell, REPEATS, around="{} &")
    command = await pid_of(shell)
    await until(lambda: is_stopped(command) and is_stopped(parent_of(command)), PATIENCE)
    shell.type("\n")
    await shell.shows("Stopped")
    shell.type("fg\n")
    await until(lambda: shell.foreground == command, PATIENCE)
    shell.type("word\n")
    await shell.shows("<word>")
    shell.type("\n")


async def test_a_command_whose_lock_was_lost_while_it_was_stopped_does_not_go_on(
    shell: Terminal, client: Redisson
) -> None:
    shell.type(f"$REDISSON_PY run k --lease 3 -- {sys.executable} -c {shell_word(COUNTS)}\n")
    command = await pid_of(shell)
    await until(lambda: shell.foreground == command, PATIENCE)
    shell.type(CTRL_Z)
    await shell.shows("Stopped")
    # Nobody renews it.
    async with client.get_lock("k").hold(timeout=PATIENCE):
        shell.type("fg\n")
        await shell.shows("redisson-py: lock 'k' was lost")
        after_stop = shell.text[shell.text.index("Stopped") :]
        assert re.findall(r"(count|ended) [0-9]+", after_stop) == ["ended"]
        shell.type("echo status=$?\n")
        await shell.shows("status=74")
    assert not is_running(command)


async def test_where_nobody_can_continue_it_ctrl_z_does_nothing(terminal: StartTerminal) -> None:
    run = terminal(*RUN, "--", "sh", "-c", REPEATS)
    await pid_of(run)
    run.type("first\n")
    await run.shows("<first>")
    run.type(CTRL_Z)
    run.type("word\n")
    await run.shows("<word>")
    run.type("\n")
    assert await run.ends() == 0


async def test_the_terminal_is_as_it_was_when_the_command_was_killed(
    shell: Terminal, client: Redisson
) -> None:
    run_in(shell, "stty -echo; echo pid=$$; trap '' TERM; read word", "--lease 3 --grace 0")
    command = await pid_of(shell)
    await until(lambda: not shell.echoes, PATIENCE)
    await client.get_lock("k").force_release()
    await shell.shows("was lost")
    await until(lambda: shell.echoes, PATIENCE)
    await until_gone(command)


async def test_a_hang_up_ends_command_and_run(terminal: StartTerminal, redis: Redis) -> None:
    run = terminal(*RUN, "--", "sh", "-c", REPEATS)
    command = await pid_of(run)
    os.killpg(command, signal.SIGHUP)
    assert await run.ends() == 128 + signal.SIGHUP
    assert not await redis.exists("k")
