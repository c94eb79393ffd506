"""The controlling terminal: which process group has it, and job control."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Self, final


@final
class Terminal:
    """The controlling terminal, which belongs to one process group at a time, the foreground.

    A group in the background that reads it is stopped. So a command in a group of its own must be
    given the terminal, and its end gives it back to our group.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._modes = termios.tcgetattr(fd)

    @classmethod
    def find(cls) -> Self | None:
        """Return the controlling terminal; None if there is none, as under cron or systemd."""
        try:
            fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return cls(fd)
        except termios.error:
            os.close(fd)
            return None

    @property
    def is_for_us_alone(self) -> bool:
        """Whether a shell gave it to this process, and no pipeline or script shares it."""
        alone = os.getpgrp() == os.getpid() and os.isatty(0) and os.isatty(1)
        return alone and self.is_ours

    @property
    def is_ours(self) -> bool:
        """Whether our process group is in the foreground."""
        return self.belongs_to(os.getpgrp())

    def belongs_to(self, group: int) -> bool:
        """Return whether a process group is in the foreground."""
        try:
            return os.tcgetpgrp(self._fd) == group
        except OSError:
            return False

    def give(self, group: int) -> None:
        """Put a process group into the foreground; nothing happens if the terminal is gone."""
        self._unstopped(lambda: os.tcsetpgrp(self._fd, group))

    def restore_modes(self) -> None:
        """Set the modes back that it had at first: a killed editor leaves its own."""
        self._unstopped(lambda: termios.tcsetattr(self._fd, termios.TCSADRAIN, self._modes))

    def close(self) -> None:
        """Close our descriptor."""
        os.close(self._fd)

    @staticmethod
    def _unstopped(change: Callable[[], None]) -> None:
        """Change the terminal from the background with SIGTTOU blocked, which would stop us."""
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            with suppress(OSError, termios.error):
                change()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def is_in_foreground() -> bool:
    """Return whether our process group has a terminal, and is in its foreground."""
    terminal = Terminal.find()
    if terminal is None:
        return False
    try:
        return terminal.is_ours
    finally:
        terminal.close()


def stop_job() -> None:
    """Stop our process group, as Ctrl-Z does; return when it is continued.

    Returns at once where nobody could continue it: the kernel stops no orphaned group.
    """
    _raise(signal.SIGTSTP, whole_job=True)


def die_of_interrupt(*, whole_job: bool) -> None:
    """End this process by SIGINT, as Ctrl-C does: a script that runs us ends too.

    An exit status of 130 would tell its shell that we dealt with the interrupt.

    Args:
        whole_job: The process group has not had the signal: the terminal was not ours.
    """
    _raise(signal.SIGINT, whole_job=whole_job)


def _raise(number: signal.Signals, *, whole_job: bool) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(0 if whole_job else os.getpid(), number)
    signal.signal(number, before)
