"""`redisson-py run`: flock for fleets."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Final, final

import anyio
import click
from click.shell_completion import CompletionItem

from redisson_py import (
    AcquireTimeoutError,
    Lease,
    LeaseLostError,
    LockLike,
    NotHeldError,
    Redisson,
    RedissonError,
    RedissonOptions,
)
from redisson_py._cli.looks.found import given
from redisson_py._cli.running.child import Child, handled, running, why_not_found
from redisson_py._cli.running.terminal import die_of_interrupt, is_in_foreground
from redisson_py._cli.seconds import Seconds
from redisson_py._cli.servers import Servers, servers_options
from redisson_py._cli.status import BUSY, LOST, asynchronous, fail, say

#: Signals that end a process which does not handle them, and that people and services send.
_ENDING: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)
_OWNER, _TOKEN = "REDISSON_PY_OWNER", "REDISSON_PY_TOKEN"
#: What `acquire` printed: `ps` shows arguments, and not the environment.
_ADOPT = "REDISSON_PY_ADOPT"


def _complete_file(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Leave it to the shell."""
    return [CompletionItem(incomplete, type="file")]


class _RunCommand(click.Command):
    """A command whose last arguments are those of another, behind `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a CMD that does not begin at `--`: its options would be taken for ours.

        A NAME that begins with a dash stands behind a `--` of its own: `-- -x -- CMD`.
        """
        behind = tuple(args[args.index("--") + 1 :]) if "--" in args else ()
        remaining = super().parse_args(ctx, args)
        if behind[1:2] == ("--",) and ctx.params["command"] == behind[1:] and len(behind) > 2:
            ctx.params["command"] = behind = behind[2:]
        if ctx.params["command"] != behind and not ctx.resilient_parsing:
            raise click.UsageError("put -- before the command: redisson-py run NAME -- CMD", ctx)
        return remaining


@click.command(cls=_RunCommand, short_help="Hold a lock while a command runs.")
@click.argument("name")
@click.argument(
    "command",
    metavar="-- CMD...",
    nargs=-1,
    required=True,
    shell_complete=_complete_file,
)
@click.option(
    "--timeout",
    type=Seconds(),
    help="Wait at most this long for the lock, connecting included; 0 tries once. Without it,"
    " wait until the lock is free.",
)
@click.option("--nonblock", "-n", is_flag=True, help="Do not wait: the same as --timeout 0.")
@click.option(
    "--lease",
    type=Seconds(positive=True),
    help="How long the lock outlives this host if it dies; renewed while CMD runs, however long"
    " that takes.  [default: 30, or what --config says]",
)
@click.option(
    "--min-hold",
    type=Seconds(positive=True),
    help="Keep NAME taken for at least this long, by nobody once CMD has ended: for periodic jobs"
    " on hosts whose clocks differ.",
)
@click.option(
    "--fair", is_flag=True, help="Grant the lock in the order of arrival, across processes."
)
@click.option("--fenced", is_flag=True, help=f"Put a fencing token into {_TOKEN}.")
@click.option(
    "--permits",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run up to N at a time. The first use of NAME sets N.",
)
@click.option(
    "--elect",
    metavar="VALUE",
    help=f"Run as the leader of the election NAME, whose value is VALUE, and put its token into"
    f" {_TOKEN}.",
)
@click.option("--read", is_flag=True, help="Run beside other readers, but beside no writer.")
@click.option("--write", is_flag=True, help="Run alone: no reader, no other writer.")
@click.option(
    "--adopt", is_flag=True, help=f"Go on with the hold whose token is in {_ADOPT}: see acquire."
)
@click.option(
    "--busy-exit",
    type=click.IntRange(0, 255),
    metavar="N",
    default=BUSY,
    show_default=True,
    help="Exit status when the lock stays busy.",
)
@click.option(
    "--grace",
    type=Seconds(),
    default="10",
    show_default=True,
    help="If the lock is lost, CMD gets SIGTERM, then SIGKILL after this long; 0: at once.",
)
@servers_options
@asynchronous
async def run(
    *,
    servers: Servers,
    name: str,
    command: tuple[str, ...],
    timeout: float | None,
    nonblock: bool,
    lease: float | None,
    min_hold: float | None,
    permits: int | None,
    elect: str | None,
    busy_exit: int,
    grace: float,
    **kinds: bool,
) -> int:
    """Hold the lock NAME while CMD runs, on any host: flock for fleets.

    run starts CMD once it has the lock, and ends CMD if the lock is lost. The exit status is CMD's.

    \b
    redisson-py run report -- ./report.sh          wait, run, release
    redisson-py run cron -n --busy-exit 0 -- ./x   skip it while another one runs
    redisson-py run hourly -n --min-hold 600 -- x  once, though clocks differ
    redisson-py run deploy --timeout 60 -- make    give up after a minute
    redisson-py run ledger --fenced -- ./post      the token tells old from new
    redisson-py run resize --permits 4 -- ./x      at most four at a time
    redisson-py run schema --write -- ./migrate    alone; others use --read
    redisson-py run lead --elect h1:80 -- ./serve  others see who leads, and h1:80
    redisson-py run table --adopt -- ./job         with what acquire took before

    A plain NAME is the lock of client.get_lock(NAME), and of Redisson's getLock in Java.

    \b
    Exit statuses that are not CMD's:
       69  Redis did not answer, or refused; CMD did not run
       74  the lock was lost; CMD was ended
       75  busy (--busy-exit), or too late to adopt; CMD did not run
      126  CMD cannot be executed
      127  CMD was not found
    128+n  signal n ended CMD, or ended the wait

    run passes signals on to CMD and the processes it has started (its process group). The lock
    protects them until CMD itself exits: what CMD leaves in the background is not protected.
    """  # noqa: D301  # click's mark of lines that are not to be wrapped
    chosen = [kind for kind, is_chosen in kinds.items() if is_chosen]
    chosen += ["permits"] if permits is not None else []
    chosen += ["elect"] if elect is not None else []
    if len(chosen) > 1:
        raise click.UsageError(f"--{' and --'.join(chosen)} cannot be combined")
    if min_hold is not None and chosen in (["permits"], ["elect"]):
        raise click.UsageError(f"--min-hold and --{chosen[0]} cannot be combined")
    if nonblock and timeout:
        raise click.UsageError("--nonblock and --timeout cannot be combined")
    adopts = chosen == ["adopt"]
    if adopts and (nonblock or timeout is not None):
        raise click.UsageError("--adopt does not wait: leave out --nonblock and --timeout")
    if adopts and min_hold is not None:
        raise click.UsageError("--adopt and --min-hold cannot be combined")
    if adopts and not os.environ.get(_ADOPT):
        raise click.UsageError(f"--adopt needs the token that acquire printed, in {_ADOPT}")
    if (reason := why_not_found(command[0])) is not None:
        fail(reason[0], f"cannot run {command[0]}: {reason[1]}")
    # run watches the lease itself, and ends CMD before it leaves the block.
    options = RedissonOptions(on_lost="raise")
    block: AbstractAsyncContextManager[Lease]
    if lease is not None:
        options["lease_time"] = lease
    client = servers.client(**options)
    try:
        once = nonblock or timeout == 0
        wait = 0.0 if once else timeout
        if elect is not None:
            block = client.get_election(name).campaign(given(elect), timeout=wait)
        elif permits is not None:
            block = client.get_semaphore(name, permits).hold(timeout=wait)
        else:
            lock = _lock(client, name, chosen[0] if chosen else None)
            block = lock.hold(timeout=wait, min_hold=min_hold)
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    async def adopt() -> Lease:
        try:
            return await client.adopt(os.environ[_ADOPT], name=name)
        except ValueError as error:
            raise click.UsageError(f"{_ADOPT}: {error}") from None

    # The block is left by the release of its lease.
    this = _Run(adopt if adopts else block.__aenter__, command, grace)
    try:
        with handled(_ENDING, this.pass_on):
            async with client:
                status = await this.carry_out()
            # Signals from here on must not change the exit status.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    except AcquireTimeoutError as error:
        fail(busy_exit, f"{name!r} is busy" if once else str(error))
    except (NotHeldError, LeaseLostError) as error:
        fail(busy_exit, str(error))
    this.die_if_interrupted()
    return status


def _lock(client: Redisson, name: str, kind: str | None) -> LockLike:
    """Return the lock that is to be held.

    Raises:
        ValueError: The name is empty or too long.
    """
    match kind:
        case "fair":
            return client.get_fair_lock(name)
        case "fenced":
            return client.get_fenced_lock(name)
        case "read":
            return client.get_read_write_lock(name).read_lock()
        case "write":
            return client.get_read_write_lock(name).write_lock()
        case _:
            return client.get_lock(name)


@final
class _Run:
    """One run: the wait, the command, the release, and what signals mean in each of them."""

    def __init__(
        self, acquire: Callable[[], Awaitable[Lease]], command: Sequence[str], grace: float
    ) -> None:
        self._acquire = acquire
        self._command = command
        self._grace = grace
        self._waiting = anyio.CancelScope()
        self._child: Child | None = None
        #: The signal that ended the wait.
        self._signal: int | None = None

    def pass_on(self, number: int) -> None:
        """Handle a signal: pass it on to the command, or end the wait for the lock."""
        if self._child is not None:
            self._child.signal(number)
        elif self._signal is None:
            self._signal = number
            self._waiting.cancel()

    async def carry_out(self) -> int:
        """Acquire, run the command, release; return the exit status.

        Raises:
            AcquireTimeoutError: It stayed busy.
            NotHeldError, LeaseLostError: There is nothing to adopt any more.
            RedissonError: Redis gave no answer, or refused. The command did not run.
        """
        lease: Lease | None = None
        with self._waiting:
            lease = await self._acquire()
        if lease is None:
            assert self._signal is not None
            return 128 + self._signal
        if self._signal is not None:
            # It came while the answer was under way.
            status, outcome = 128 + self._signal, "was not started"
        else:
            status, outcome = await self._run_under(lease)
        try:
            await lease.release()
        except LeaseLostError as error:
            say(f"{error}; {self._command[0]} {outcome}")
            return LOST
        except RedissonError as error:
            # The work is done, and was protected until its end.
            say(str(error))
        return status

    def die_if_interrupted(self) -> None:
        """Die of SIGINT if the command did, or if it ended the wait: calling scripts rely on it."""
        child = self._child
        interrupted = self._signal if child is None else -min(child.code, 0)
        if interrupted == signal.SIGINT and is_in_foreground():
            die_of_interrupt(whole_job=child is not None and child.had_terminal)

    async def _run_under(self, lease: Lease) -> tuple[int, str]:
        """Run the command until it ends, or end it when the lease is lost.

        Return the exit status, and what became of the command in case the lease was lost.
        """
        program = self._command[0]
        with ExitStack() as stack:
            block = running(self._command, _environment(lease), self._grace, lambda: not lease.lost)
            try:
                if lease.lost:
                    return LOST, "was not started"
                child = self._child = stack.enter_context(block)
            except OSError as error:
                # ENOENT although the file exists: its interpreter is missing.
                say(f"cannot run {program}: {error.strerror}")
                return 127 if isinstance(error, FileNotFoundError) else 126, "was not started"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_lost, lease, tasks.cancel_scope)
                await child.ended.wait()
                tasks.cancel_scope.cancel()
            if child.ended.is_set():
                return child.status, f"had ended{_how(child)}"
            signals = await child.end()
            return LOST, f"got {signals} and ended{_how(child)}"


async def _cancel_when_lost(lease: Lease, scope: anyio.CancelScope) -> None:
    await lease.wait_lost()
    scope.cancel()


def _how(child: Child) -> str:
    if child.code < 0:
        return f" by {_signal_name(-child.code)}"
    return f" with exit status {child.code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # Most real-time signals have no name.
        return f"signal {number}"


def _environment(lease: Lease) -> dict[str, str]:
    """Return our environment plus the variables of this run, without those of an outer run."""
    environment = {**os.environ, _OWNER: lease.owner}
    environment.pop(_TOKEN, None)
    environment.pop(_ADOPT, None)
    if lease.token is not None:
        environment[_TOKEN] = str(lease.token)
    return environment
