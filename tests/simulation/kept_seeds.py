"""Seeds that have shown something: they are run first, for ever."""

from __future__ import annotations

#: What is simulated, the seed, and what it showed.
KEPT: list[tuple[str, int, str]] = [
    ("multi_lock-lifecycle", 4179, "a release beside a re-entry cut the lease of the inner one"),
    ("read_write_lock", 45, "a re-entry repeated behind a release beside it was refused"),
    ("fenced_lock", 44994, "a re-entry of a hold that was lost meanwhile raised the wrong error"),
    ("multi_lock-lifecycle", 20992, "a re-entry refused beside a release left its hold count"),
    ("lock-lifecycle", 31340, "a waiter slept on when a lease that was shortened had ended"),
    ("multi_lock-lifecycle", 4281, "steps beside each other were blamed for each other's releases"),
    (
        "multi_lock-lifecycle",
        82,
        "a hold whose record was deleted was passed on as if it were sound",
    ),
    ("fair_lock-lifecycle", 2764, "a wait that had not begun was not cancelled"),
    ("fair_lock-lifecycle", 5467, "a task that was about to end got an order"),
    ("read_write_lock-lifecycle", 557, "a writer freed by force was taken for one that reads"),
    ("multi_lock-lifecycle", 40866, "a task was given two orders at once"),
    ("read_write_lock-lifecycle", 31531, "a writer freed by force may be there, or not"),
    ("lock-lifecycle", 45383, "a late duplicate got it for a waiter whom no message reached"),
    (
        "permit_expirable_semaphore-lifecycle",
        31347,
        "a block that a cancelled body was leaving was not excused when the key was deleted",
    ),
    ("lock", 22916, "bytes in a black hole outlasted the undo, and ended with the lease"),
    ("barrier", 194, "two rounds that began in the same microsecond had the same name"),
    ("fair_lock", 273, "a server that came up late lost its data when it came up"),
    ("fair_lock", 48527, "a release was not repeated for as long as the server kept a re-entry"),
    ("read_write_lock-lifecycle", 52417, "a read whose end was moved as it came was deleted"),
    (
        "fair_lock-lifecycle",
        10003360,
        "a block that was left while its lease was released was not excused for the next one",
    ),
    ("multi_lock-lifecycle", 10009387, "what had just ended by itself was still on the server"),
    ("lock", 24, "a client that let others go first spun until the moment came"),
]
