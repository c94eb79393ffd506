"""Ends a process group when this process is killed, which can no longer do it itself.

The guard is a shell that reads from a pipe only we can write to: the pipe ends when our process
ends, however it ends. On Linux the kernel could signal the child (PR_SET_PDEATHSIG), but only the
one process and not what it has started, and setting it takes a `preexec_fn`.
"""

from __future__ import annotations

import math
import subprocess
from typing import Final, final

#: The process group and whole seconds of grace are its arguments.
_SCRIPT: Final = """\
read -r _
kill -s TERM -- "-$1"
kill -s CONT -- "-$1"
left=$2
while [ "$left" -gt 0 ] && kill -s 0 -- "-$1"; do sleep 1; left=$((left - 1)); done
kill -s KILL -- "-$1"
"""


@final
class Guard:
    """Guards one process group until it is dismissed."""

    def __init__(self, group: int, grace: float) -> None:
        """Start it.

        Raises:
            OSError: It cannot be started: there is no /bin/sh, or there are too many processes.
        """
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "guard", str(group), str(math.ceil(grace))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # The signals of the terminal are not for it.
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """The group needs no guard any more."""
        self._shell.kill()
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()
