"""`redisson-py run`: exit statuses, kinds of locks, what the command gets; with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Leader, Redisson
from redisson_py.locks.election import candidate_of
from tests.cli.processes import PATIENCE, WAITS, StartCommandLine, ignore_nothing
from tests.stores.election_support import queued
from tests.support.command_line import invoke
from tests.support.waiting import until_async

pytestmark = pytest.mark.also("floor")

#: Nobody listens there: whatever does not need Redis does not notice.
NOBODY = "redis://127.0.0.1:1"


def words(value: object) -> str | None:
    """Return the id of a test with these arguments."""
    return " ".join(value) if isinstance(value, list) else None


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -KILL $$", 128 + signal.SIGKILL),
        ("kill -40 $$", 128 + 40),  # a real-time signal without a name
    ],
)
async def test_the_exit_status_is_the_commands(
    command_line: StartCommandLine, script: str, status: int
) -> None:
    run = await command_line("run", "k", "--", "sh", "-c", script)
    assert await run.end() == (status, "", "")


async def test_the_lock_is_held_while_the_command_runs_and_is_redissons(
    command_line: StartCommandLine, redis: Redis
) -> None:
    run = await command_line(
        *("run", "k", "--lease", "7", "--", "sh", "-c", 'echo "$REDISSON_PY_OWNER"; read line')
    )
    owner = await run.read_row()
    # The hash, field and count of Redisson's RLock.
    assert await redis.hgetall("k") == {owner.encode(): b"1"}
    assert 0 < await redis.pttl("k") <= 7000
    assert await run.end("\n") == (0, "", "")
    assert not await redis.exists("k")


async def test_two_runs_of_one_name_never_overlap(
    command_line: StartCommandLine, tmp_path: Path
) -> None:
    book = tmp_path / "book"
    script = f"echo $$ >> {book}; sleep 0.1; echo $$ >> {book}"
    runs = [await command_line("run", "k", "--", "sh", "-c", script) for _ in range(6)]
    assert [await run.end() for run in runs] == [(0, "", "")] * 6
    written = book.read_text().split()
    assert len({*written}) == 6
    assert written[0::2] == written[1::2]


async def waits_for_messages(client: Redisson) -> bool:
    """Whether somebody has subscribed to a lock's channel."""
    found: Any = await client._executor.query(
        b"k", "PUBSUB", "NUMSUB", "redisson_lock__channel:{k}"
    )
    return bool(found[1])


@pytest.mark.parametrize(
    ("options", "status", "reason"),
    [
        (["--nonblock"], 75, "'k' is busy"),
        (["--timeout", "0"], 75, "'k' is busy"),
        (["--timeout", "2"], 75, "stayed busy for 2 s"),
        (["-n", "--busy-exit", "0"], 0, "'k' is busy"),
    ],
    ids=words,
)
async def test_a_busy_lock_is_an_exit_status_of_its_own_and_nothing_runs(
    command_line: StartCommandLine,
    client: Redisson,
    tmp_path: Path,
    options: list[str],
    status: int,
    reason: str,
) -> None:
    trace = tmp_path / "trace"
    async with client.get_lock("k"):
        run = await command_line("run", "k", *options, "--", "touch", str(trace))
        code, _, errors = await run.end()
    assert code == status
    assert reason in errors
    assert errors.count("\n") == 1
    assert not trace.exists()


async def test_no_answer_is_an_exit_status_of_its_own_and_nothing_runs(
    command_line: StartCommandLine, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    run = await command_line("run", "k", "-n", "--", "touch", str(trace), url=NOBODY)
    code, _, errors = await run.end()
    assert code == 69
    assert "no connection" in errors
    assert errors.count("\n") == 1
    assert not trace.exists()


async def test_an_error_that_cannot_be_written_leaves_the_exit_status(
    command_line: StartCommandLine, client: Redisson
) -> None:
    unwritable = ("sh", "-c", 'exec "$@" 2>/dev/full', "-")
    async with client.get_lock("k"):
        run = await command_line("run", "k", "-n", "--", "true", wrapped_in=unwritable)
        assert await run.end() == (75, "", "")


async def test_a_refusal_is_one_row_too(command_line: StartCommandLine, redis: Redis) -> None:
    await redis.set("k", "no lock", ex=60)
    code, _, errors = await (await command_line("run", "k", "--", "true")).end()
    assert code == 69
    assert "WRONGTYPE" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("program", "status"),
    [("no-such-program", 127), ("", 127), ("./no-such-file", 127), (os.sep, 126), (__file__, 126)],
)
def test_what_cannot_be_run_is_found_before_anything_is_asked(program: str, status: int) -> None:
    result = invoke("run", "k", "--", program, env={"REDISSON_URL": NOBODY})
    assert result.exit_code == status
    assert result.stderr.startswith("redisson-py: cannot run")


def test_a_program_that_is_not_executable_exits_with_126(
    tmp_path: Path,
) -> None:
    (tmp_path / "some-program").touch()
    environment = {"REDISSON_URL": NOBODY, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert invoke("run", "k", "--", "some-program", env=environment).exit_code == 126


@pytest.mark.parametrize(
    ("content", "status"), [("#!/no/such/interpreter\n", 127), ("\x7fELF", 126)]
)
async def test_what_the_kernel_refuses_to_run_leaves_nothing_held(
    command_line: StartCommandLine, redis: Redis, tmp_path: Path, content: str, status: int
) -> None:
    program = tmp_path / "program"
    program.write_text(content)
    program.chmod(0o755)
    run = await command_line("run", "k", "--", str(program))
    code, _, errors = await run.end()
    assert code == status
    assert errors.startswith(f"redisson-py: cannot run {program}: ")
    assert not await redis.exists("k")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["k", "true"], "put -- before the command"),
        (["k", "sort", "-n", "--", "file"], "put -- before the command"),
        (["k", "--"], "Missing argument"),
        (["--", "-x", "true", "--", "-y"], "put -- before the command"),
        (["--", "-x", "--"], "put -- before the command"),
        (["k", "--fair", "--fenced", "--", "true"], "--fair and --fenced cannot be combined"),
        (["k", "--read", "--permits", "2", "--", "true"], "--read and --permits cannot be"),
        (["k", "--elect", "v", "--permits", "2", "--", "true"], "--permits and --elect cannot be"),
        (["k", "--elect", "v", "--fenced", "--", "true"], "--fenced and --elect cannot be"),
        (["k", "--elect", "v", "--min-hold", "1", "--", "true"], "--min-hold and --elect cannot"),
        (["", "--elect", "v", "--", "true"], "must not be empty"),
        (["k", "--permits", "0", "--", "true"], "--permits"),
        (["k", "-n", "--timeout", "3", "--", "true"], "--nonblock and --timeout cannot be"),
        (["k", "--timeout", "nan", "--", "true"], "nan is not a number of seconds"),
        (["k", "--timeout", "-1", "--", "true"], "0 or more"),
        (["k", "--lease", "0", "--", "true"], "more than 0"),
        (["k", "--min-hold", "0", "--", "true"], "more than 0"),
        (["k", "--min-hold", "1", "--write", "--", "true"], "cannot have a min_hold"),
        (["k", "--min-hold", "1", "--permits", "2", "--", "true"], "--min-hold and --permits"),
        (["k", "--lease", "1e12", "--", "true"], "10 years"),
        (["k", "--grace", "soon", "--", "true"], "soon is not a number of seconds"),
        (["k", "--busy-exit", "256", "--", "true"], "--busy-exit"),
        (["", "--", "true"], "must not be empty"),
    ],
    ids=words,
)
def test_what_makes_no_sense_is_a_usage_error_before_any_io(
    arguments: list[str], reason: str
) -> None:
    result = invoke("run", *arguments, env={"REDISSON_URL": NOBODY})
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize("options", [(), ("--fair", "--lease", "20")], ids=words)
async def test_a_name_may_begin_with_a_dash(
    command_line: StartCommandLine, client: Redisson, options: tuple[str, ...]
) -> None:
    run = await command_line("run", *options, "--", "-x", "--", "echo", "--", "-n", "done")
    assert (await run.end())[:2] == (0, "-- -n done\n")
    async with client.get_lock("-x"):
        busy = await command_line("run", "-n", "--", "-x", "--", "true")
        code, _, errors = await busy.end()
        assert code == 75
        assert "'-x' is busy" in errors


def test_a_run_does_not_wait_for_the_imports_of_other_commands() -> None:
    script = "import sys; from redisson_py._cli.main import cli; cli.main(['run', '--help'],"
    script += " standalone_mode=False); sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL).returncode == 0


async def test_a_fenced_run_has_a_token_that_grows_and_others_have_none(
    command_line: StartCommandLine,
) -> None:
    script = 'echo "${REDISSON_PY_TOKEN:-none}"'
    first = await (await command_line("run", "k", "--fenced", "--", "sh", "-c", script)).end()
    inner = [sys.executable, "-m", "redisson_py", "run", "other", "--", "sh", "-c", script]
    second = await command_line(
        *("run", "k", "--fenced", "--", "sh", "-c", f'{script}; exec "$@"', "-", *inner)
    )
    status, output, _ = await second.end()
    outer_token, inner_token = output.split()
    assert (first[0], status) == (0, 0)
    assert int(first[1]) < int(outer_token)
    assert inner_token == "none"


@pytest.mark.parametrize("options", [(), ("--fair",), ("--fenced",)], ids=words)
async def test_the_name_of_a_short_command_stays_taken(
    command_line: StartCommandLine, client: Redisson, options: tuple[str, ...]
) -> None:
    run = await command_line("run", "k", *options, "--min-hold", "300", "--", "echo", "done")
    assert (await run.end())[:2] == (0, "done\n")
    again = await command_line("run", "k", *options, "-n", "--", "echo", "again")
    code, output, errors = await again.end()
    assert (code, output) == (75, "")
    assert "'k' is busy" in errors
    (holder,) = (await client.get_lock("k").inspect()).holders
    assert holder.owner.endswith(":kept")
    assert await client.get_lock("k").force_release()


async def test_as_many_run_at_a_time_as_there_are_permits(
    command_line: StartCommandLine, client: Redisson
) -> None:
    runs = [await command_line("run", "s", "--permits", "2", "--", *WAITS) for _ in range(2)]
    for run in runs:
        await run.read_row()
    assert await client.get_semaphore("s").available() == 0
    third = await command_line("run", "s", "--permits", "2", "-n", "--", "true")
    assert (await third.end())[0] == 75
    for run in runs:
        assert (await run.end("\n"))[0] == 0
    assert await client.get_semaphore("s").available() == 2
    await client.get_semaphore("s").delete()


async def test_readers_run_together_and_writers_alone(command_line: StartCommandLine) -> None:
    readers = [await command_line("run", "k", "--read", "--", *WAITS) for _ in range(2)]
    for run in readers:
        await run.read_row()
    writer = await command_line("run", "k", "--write", "-n", "--", "true")
    assert (await writer.end())[0] == 75
    for run in readers:
        assert (await run.end("\n"))[0] == 0
    writer = await command_line("run", "k", "--write", "--", *WAITS)
    await writer.read_row()
    reader = await command_line("run", "k", "--read", "-n", "--", "true")
    assert (await reader.end())[0] == 75
    assert (await writer.end("\n"))[0] == 0


async def test_a_fair_run_queues_with_fair_locks(
    command_line: StartCommandLine, client: Redisson, redis: Redis
) -> None:
    async with client.get_fair_lock("k"):
        run = await command_line("run", "k", "--fair", "--", "true")
        await until_async(lambda: redis.llen("redisson_lock_queue:{k}"), PATIENCE)
    assert await run.end() == (0, "", "")


async def test_an_elected_run_is_the_leader_whom_others_find(
    command_line: StartCommandLine, client: Redisson
) -> None:
    election = client.get_election("k")
    script = 'echo "$REDISSON_PY_OWNER $REDISSON_PY_TOKEN"; read line'
    leads = ("--elect", "host-1:80", "--", "sh", "-c", script)
    run = await command_line("run", "k", *leads)
    owner, token = (await run.read_row()).split()
    assert await election.leader() == Leader(b"host-1:80", int(token))
    assert [holder.owner for holder in (await election.inspect()).holders] == [owner]
    busy = await command_line("run", "k", "-n", *leads)
    assert (await busy.end())[0] == 75
    following = await command_line("run", "k", "--elect", b"host-\xff", *leads[2:])
    await queued(election, 1)
    assert await run.end("\n") == (0, "", "")
    _, later = (await following.read_row()).split()
    assert int(later) > int(token)
    assert await election.leader() == Leader(b"host-\xff", int(later))
    # And it is deposed as any leader is.
    assert await candidate_of(election).force_release()
    status, _, errors = await following.end("\n")
    assert status == 74
    assert errors.startswith("redisson-py: election 'k' was lost after ")
    assert await election.leader() is None


async def test_the_command_has_our_streams_and_other_descriptors(
    command_line: StartCommandLine,
) -> None:
    reading, writing = os.pipe()
    try:
        script = f"echo errors >&2; echo more > /proc/self/fd/{writing}; cat"
        run = await command_line("run", "k", "--", "sh", "-c", script, pass_fds=[writing])
        text = "text\n" * 100_000
        assert await run.end(text) == (0, text, "errors\n")
        assert os.read(reading, 100) == b"more\n"
    finally:
        os.close(reading)
        os.close(writing)


async def test_the_command_does_not_inherit_what_python_or_the_event_loop_set_up(
    command_line: StartCommandLine,
) -> None:
    script = "import os, signal; print(sorted(os.listdir('/proc/self/fd'))[:3])\n"
    script += "print([s.name for s in signal.valid_signals() if signal.getsignal(s) is"
    script += " signal.SIG_IGN]); print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    script += "print(len(os.listdir('/proc/self/fd')))"
    plain = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=ignore_nothing,
    )
    wanted = (await plain.communicate())[0].decode()
    run = await command_line("run", "k", "--", sys.executable, "-c", script)
    assert await run.end() == (0, wanted, "")
