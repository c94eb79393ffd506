"""What the process `probe` saw of a server: the words in which it records that.

Each is an operation `probe` whose `rid` says what was looked at; `handle` is "quiet" where the
nemeses had ended, every worker had closed its client and all records had expired, and "now" before.

    keys        n = DBSIZE, value = the names
    channels    value = PUBSUB CHANNELS
    lease       obj, owner and n = PTTL in ms (-2: no key) of a hold
    available   obj, n = the permits that are there
    owners      obj, value = its owners, when all workers have ended, before leases end
    rounds      obj, value = the rounds that a barrier remembers, n = those of them that nobody
                could ask for any more when the newest of them began
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tests.jepsen.history import History, Op

Looked = Literal["keys", "channels", "lease", "available", "owners", "rounds"]
QUIET = "quiet"


def probes(history: History, looked_at: Looked, *, quiet: bool = False) -> Iterator[Op]:
    """Yield what the probe saw of one kind; if `quiet`, at the end only."""
    for op in history.of("probe"):
        if op.rid == looked_at and op.out == "ok" and (not quiet or op.handle == QUIET):
            yield op
