"""Ends a process group when this process is killed, which can no longer do it itself.

The guard is a shell that reads from a pipe only we can write to: the pipe ends when our process
ends, however it ends. On Linux the kernel could signal the child (PR_SET_PDEATHSIG), but only the
one process and not what it has started.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
from contextlib import suppress
from typing import Final, final

#: Seconds of grace that every shell can count.
_LONGEST: Final = 10**9

#: Whole seconds of grace are its argument; the process group is the line that it reads.
#: What ends every process of a service by SIGTERM must not end this one before the command.
_SCRIPT: Final = """\
trap '' HUP INT TERM
read -r group || exit
read -r _
kill -s TERM -- "-$group"
kill -s CONT -- "-$group"
left=$1
while [ "$left" -gt 0 ] && kill -s 0 -- "-$group"; do sleep 1; left=$((left - 1)); done
kill -s KILL -- "-$group"
"""


@final
class Guard:
    """Guards one process group until it is dismissed.

    It is started before the command. The child process reports its group to the guard before it
    executes the command, so there is no moment in which we can be killed and the command goes on.
    """

    def __init__(self, grace: float) -> None:
        """Start it.

        Raises:
            OSError: It cannot be started: there is no /bin/sh, or there are too many processes.
        """
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "guard", str(min(math.ceil(grace), _LONGEST))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # The signals of the terminal are not for it.
            start_new_session=True,
            bufsize=0,
        )

    def watch_this_process(self) -> None:
        """Have it guard the group that this process leads: between its fork and its exec."""
        assert self._shell.stdin is not None
        # Somebody may have killed the guard. The command is to have SIGPIPE as it was.
        before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        with suppress(BrokenPipeError):
            os.write(self._shell.stdin.fileno(), b"%d\n" % os.getpid())
        signal.signal(signal.SIGPIPE, before)

    def dismiss(self) -> None:
        """The group needs no guard any more."""
        self._shell.kill()
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()
