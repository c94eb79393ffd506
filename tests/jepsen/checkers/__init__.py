"""The checkers: pure functions from a history to a verdict."""

from __future__ import annotations

from tests.jepsen.checkers.adoption import adoption
from tests.jepsen.checkers.endings import leaks, no_deadlock, no_unexpected_error
from tests.jepsen.checkers.exclusion import (
    hold_count,
    mutual_exclusion,
    read_write,
    semaphore_capacity,
)
from tests.jepsen.checkers.fifo import fifo
from tests.jepsen.checkers.hand_off import no_lost_wake_up
from tests.jepsen.checkers.leaders import leaders
from tests.jepsen.checkers.linearizability import linearizability
from tests.jepsen.checkers.loss_detection import loss_detection
from tests.jepsen.checkers.opening import barrier, latch
from tests.jepsen.checkers.tokens import fencing, referee, set_add
from tests.jepsen.checkers.verdict import Checker

#: Every checker by its name.
CHECKERS: dict[str, Checker] = {
    "mutual exclusion": mutual_exclusion,
    "fencing": fencing,
    "adoption": adoption,
    "referee": referee,
    "hold count": hold_count,
    "semaphore capacity": semaphore_capacity,
    "read-write": read_write,
    "fifo": fifo,
    "latch": latch,
    "barrier": barrier,
    "leaders": leaders,
    "no lost wake-up": no_lost_wake_up,
    "loss detection": loss_detection,
    "leaks": leaks,
    "set add": set_add,
    "no deadlock": no_deadlock,
    "no unexpected error": no_unexpected_error,
    "linearizability": linearizability,
}
