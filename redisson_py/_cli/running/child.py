"""A command that runs as a child process, in a process group of its own.

`anyio.open_process` is not used: it makes a process group only with a new session, in which the
command could not read the terminal, and it does not report that a child was stopped.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, final

import anyio

from redisson_py._cli.running.guard import Guard
from redisson_py._cli.running.terminal import Terminal, stop_job
from redisson_py._cli.status import say

#: Seconds between two looks at a group whose first process has ended.
_LOOK: Final = 0.05


def why_not_found(program: str) -> tuple[int, str] | None:
    """Return exit status and reason if a program cannot be started; None if there is one.

    As in shells: 127 if there is none, 126 if it may not be executed.
    """
    paths = [program]
    if "/" not in program:
        paths = [os.path.join(folder, program) for folder in os.get_exec_path() if program]
    found = [path for path in paths if os.path.exists(path)]
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in found):
        return None
    if found:
        return 126, "it is not an executable file"
    return 127, "no such file" if "/" in program else "it is not on the PATH"


@contextmanager
def handled(numbers: Iterable[int], handle: Callable[[int], None]) -> Generator[None]:
    """Have the event loop handle signals, but for those that we were started to ignore."""
    loop = asyncio.get_running_loop()
    ours = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    for number in ours:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in ours:
            loop.remove_signal_handler(number)


def _listen_to_children() -> None:
    """Undo what we may have inherited: without SIGCHLD, the end of the command goes unnoticed."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


@contextmanager
def running(
    command: Sequence[str],
    environment: Mapping[str, str],
    grace: float,
    may_continue: Callable[[], bool],
) -> Generator[Child]:
    """Run a command for a block; if an error ends the block, the command's group is killed.

    Its standard streams and other inheritable descriptors are ours. Where there is a terminal, it
    gets the foreground as from a shell, and Ctrl-Z stops it together with our process group.

    Args:
        command: The program and its arguments.
        environment: All of its environment.
        grace: Seconds between SIGTERM and SIGKILL when it is ended.
        may_continue: Whether it may go on after it was stopped together with us.

    Raises:
        OSError: It cannot be started.
    """
    # They are handled on the event loop, which goes on when there is a child.
    _listen_to_children()
    with (
        handled([signal.SIGCHLD], lambda _: child.look()),
        handled([signal.SIGCONT], lambda _: child.resume()),
        handled([signal.SIGTSTP, signal.SIGWINCH], lambda number: child.signal(number)),
    ):
        guard = _guard(grace)
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                process_group=0,
                close_fds=False,
                # There is one thread, so nothing of the parent's can be locked in there.
                preexec_fn=None if guard is None else guard.watch_this_process,
            )
            child = Child(process, grace, may_continue)
            try:
                yield child
            finally:
                child.close()
        finally:
            if guard is not None:
                guard.dismiss()


def _guard(grace: float) -> Guard | None:
    try:
        return Guard(grace)
    except OSError as error:
        say(f"cannot start the guard ({error}): if this process is killed, its command goes on")
        return None


@final
class Child:
    """The command, from its start to its end.

    Attributes:
        ended: Set when its process has ended; what it has started may still run.
        had_terminal: It was in the foreground when it ended.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], grace: float, may_continue: Callable[[], bool]
    ) -> None:
        self.ended = anyio.Event()
        self.had_terminal = False
        self._process = process
        self._group = process.pid
        self._grace = grace
        self._may_continue = may_continue
        self._terminal = Terminal.find()
        self._wants_terminal = False
        if self._terminal is not None and self._terminal.is_for_us_alone:
            self._give_terminal(self._terminal)

    @property
    def code(self) -> int:
        """Its exit status, or the negative number of the signal that ended it."""
        code: int | None = self._process.returncode
        assert code is not None
        return code

    @property
    def status(self) -> int:
        """Its exit status as shells have it: 128 and the number of the signal that ended it."""
        return self.code if self.code >= 0 else 128 - self.code

    def signal(self, number: int) -> None:
        """Pass a signal on to its process group, unless its process has ended."""
        if not self.ended.is_set():
            self._kill(number)

    async def end(self) -> str:
        """End the group: SIGTERM, after the grace SIGKILL. Return what it got.

        Returns when its process has been reaped, and nothing of its group is left or SIGKILL was
        sent. What has left the group is not reached, nor what runs as another user.
        """
        self._kill(signal.SIGTERM)
        # A stopped process would not see it.
        self._kill(signal.SIGCONT)
        with anyio.move_on_after(self._grace):
            await self.ended.wait()
            # Nothing tells of the end of processes that are not our children.
            while self._group_is_left():  # noqa: ASYNC110
                await anyio.sleep(_LOOK)
            return "SIGTERM"
        self._kill(signal.SIGKILL)
        await self.ended.wait()
        return f"SIGTERM, then SIGKILL after {self._grace:g} s,"

    def look(self) -> None:
        """Learn what has become of its process: after SIGCHLD."""
        while not self.ended.is_set():
            process, status = os.waitpid(self._process.pid, os.WNOHANG | os.WUNTRACED)
            if process == 0:
                return
            if os.WIFSTOPPED(status):
                self._stopped(os.WSTOPSIG(status))
            else:
                self._reaped(os.waitstatus_to_exitcode(status))

    def resume(self) -> None:
        """Have it go on, as we do after SIGCONT; but not unprotected."""
        if not self._may_continue():
            return
        if self._terminal is not None and self._terminal.is_ours and self._wants_terminal:
            self._give_terminal(self._terminal)
        self.signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill its group if its process has not ended; let go of the terminal."""
        if not self.ended.is_set():
            self._kill(signal.SIGKILL)
            self._reaped(os.waitstatus_to_exitcode(os.waitpid(self._process.pid, 0)[1]))
        if self._terminal is not None:
            self._terminal.close()

    def _stopped(self, number: int) -> None:
        terminal = self._terminal
        if terminal is None or number == signal.SIGSTOP:
            # Somebody stopped it and will continue it. We go on: it keeps its lock.
            return
        in_foreground = terminal.belongs_to(self._group)
        if number in (signal.SIGTTIN, signal.SIGTTOU):
            if in_foreground or terminal.is_ours:
                self._give_terminal(terminal)
                self.signal(signal.SIGCONT)
            else:
                # The shell that started us in the background continues us in the foreground.
                stop_job()
            return
        if in_foreground:
            terminal.give(os.getpgrp())
        stop_job()
        self.resume()

    def _give_terminal(self, terminal: Terminal) -> None:
        self._wants_terminal = True
        terminal.give(self._group)

    def _reaped(self, code: int) -> None:
        self._process.returncode = code
        terminal = self._terminal
        if terminal is not None and terminal.belongs_to(self._group):
            self.had_terminal = True
            terminal.give(os.getpgrp())
            if code < 0:
                terminal.restore_modes()
        self.ended.set()

    def _kill(self, number: int) -> None:
        # Gone, or of another user.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)

    def _group_is_left(self) -> bool:
        try:
            os.killpg(self._group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True
