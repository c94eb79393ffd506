"""The record of a run: one append-only file a process, and how it is read.

Each operation is written twice: when it is invoked, and when it has ended. A process that is killed
in between leaves an operation without an end, of which nobody knows whether it happened. One clock
orders the records of all processes: CLOCK_BOOTTIME of this machine, in nanoseconds.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

#: What became of an operation: it happened; it certainly did not; nobody knows.
Outcome = Literal["ok", "fail", "info"]

SUFFIX = ".history"


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def now() -> int:
    """Return nanoseconds of the clock of all records."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of a history.

    Attributes:
        process: The process that did it: `w0`, `resource`, `nemesis`, `probe`.
        handle: What did it inside the process: the name of a task.
        op: What it did: `acquire`, `release`, `check`, `lost`, `begin`, `write`, `count_down`, ...
        obj: The name of what it was done to.
        t0: When it was invoked.
        t1: When it had ended; None: not that anybody knows.
        out: What became of it. `fail` only if it certainly did not happen.
        rid: The section, or whatever tells this use of the object from others.
        owner: The owner of the lease in Redis.
        fence: The fencing token.
        n: A count: holds, permits, parties, a generation; what it means depends on `op`.
        deadline: When the holder's lease ends by the holder's own clock.
        value: What was read or written.
        err: The class of the error.
    """

    process: str
    handle: str
    op: str
    obj: str
    t0: int
    t1: int | None
    out: Outcome
    rid: str = ""
    owner: str = ""
    fence: int | None = None
    n: int | None = None
    deadline: int | None = None
    value: Any = None
    err: str = ""

    @property
    def end(self) -> float:
        """When it had ended at the latest: infinity if nobody knows."""
        return float("inf") if self.t1 is None else self.t1


#: Made once: `json.dumps` would make another for each record.
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

#: The fields of a record, and their names in the file.
_NAMES = {"process": "p", "handle": "h"}
_FACTS = ("rid", "owner", "fence", "n", "deadline", "value", "err")


class Recorder:
    """Appends the operations of one process to its file; for all its threads."""

    def __init__(self, folder: Path, process: str) -> None:
        """Open the file of a process; a process that starts anew under a name goes on in it."""
        self.process = process
        path = folder / f"{process}{SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        # Two lives of a process may not share numbers.
        self._next = itertools.count(time.time_ns()).__next__

    def invoke(self, op: str, obj: str, handle: str = "", **facts: Any) -> int:
        """Record that an operation begins; return its number for `complete`."""
        number = self._next()
        self._write({"i": number, "p": self.process, "h": handle or self.process, "op": op,
                     "obj": obj, "t0": now(), **facts})  # fmt: skip
        return number

    def complete(self, number: int, out: Outcome = "ok", **facts: Any) -> None:
        """Record the end of an operation."""
        self._write({"i": number, "t1": now(), "out": out, **facts})

    def note(
        self,
        op: str,
        obj: str,
        handle: str = "",
        out: Outcome = "ok",
        since: int | None = None,
        **facts: Any,
    ) -> None:
        """Record what nobody else can see: a loss that was told, a look at a lease.

        It took no time, or began at `since`.
        """
        moment = now()
        self._write({"i": self._next(), "p": self.process, "h": handle or self.process,
                     "op": op, "obj": obj, "t0": since or moment, "t1": moment, "out": out,
                     **facts})  # fmt: skip

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, record: dict[str, Any]) -> None:
        # One call a record: what was written survives a SIGKILL.
        os.write(self._file, _encode(record).encode() + b"\n")


@dataclass
class History:
    """The operations of a run, ordered by when they were invoked."""

    ops: list[Op]
    _by_op: dict[str, list[Op]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.ops.sort(key=lambda op: op.t0)
        by_op: defaultdict[str, list[Op]] = defaultdict(list)
        for each in self.ops:
            by_op[each.op].append(each)
        self._by_op = dict(by_op)

    def __len__(self) -> int:
        return len(self.ops)

    def of(self, *ops: str) -> list[Op]:
        """Return the operations of these names, in order."""
        if len(ops) == 1:
            return self._by_op.get(ops[0], [])
        return sorted((each for op in ops for each in self._by_op.get(op, [])), key=lambda o: o.t0)

    def by_object(self, *ops: str) -> dict[str, list[Op]]:
        """Return the operations of these names (all, if none is given) by object, in order."""
        found: defaultdict[str, list[Op]] = defaultdict(list)
        for each in self.of(*ops) if ops else self.ops:
            found[each.obj].append(each)
        return dict(found)


def read_history(folder: Path) -> History:
    """Read the files of all processes of a run."""
    return History([op for path in sorted(folder.glob(f"*{SUFFIX}")) for op in _read(path)])


def _read(path: Path) -> Iterator[Op]:
    open_ones: dict[int, dict[str, Any]] = {}
    done: list[dict[str, Any]] = []
    with path.open("rb") as rows:
        for row in rows:
            if not row.endswith(b"\n"):
                break  # the process was killed while it wrote
            record = json.loads(row)
            begun = open_ones.pop(record["i"], None)
            if begun is not None:
                done.append({**begun, **record})
            elif "t1" in record:
                done.append(record)
            else:
                open_ones[record["i"]] = record
    yield from _ops(done)
    yield from _ops({**record, "t1": None, "out": "info"} for record in open_ones.values())


def _ops(records: Iterable[dict[str, Any]]) -> Iterator[Op]:
    for record in records:
        facts = {name: record[name] for name in _FACTS if name in record}
        named = {name: record[short] for name, short in _NAMES.items()}
        plain = {name: record[name] for name in ("op", "obj", "t0", "t1", "out")}
        yield Op(**named, **plain, **facts)
