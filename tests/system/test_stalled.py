"""`python -m tests.stalled`: what it stops goes on, except what somebody else has stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests import stalled
from tests.stalled import stall
from tests.support import repository
from tests.sync.threads import until


def state_of(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text("utf-8").rpartition(") ")[2][0]


def test_a_process_that_a_test_stops_meanwhile_stays_stopped() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            os.kill(process.pid, signal.SIGSTOP)
            until(lambda: state_of(process) == "T")
            os.kill(process.pid, signal.SIGSTOP)
            stall(process.pid, 0.0)
            assert state_of(process) == "T"
            os.kill(process.pid, signal.SIGCONT)
            until(lambda: state_of(process) == "S")
        finally:
            process.kill()


def test_an_interrupt_during_a_stall_leaves_nothing_stopped() -> None:
    command = [
        sys.executable,
        "-m",
        stalled.__name__,
        "--pause=0.01",
        "--seconds=30",
        "sleep",
        "60",
    ]
    with subprocess.Popen(command, cwd=repository.ROOT) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: children.read_text("utf-8").strip())
        (child,) = children.read_text("utf-8").split()
        until(lambda: Path(f"/proc/{child}/stat").read_text("utf-8").rpartition(") ")[2][0] == "T")
        process.terminate()
        assert process.wait(30) != 0
    assert not Path(f"/proc/{child}").exists()
