"""The sections of docs/performance.md about the limit and about a crowd of clients.

`make bench-crowd` writes `crowd.json` and then the page. `crowd-before.json` is the same run before
the client queue: it stays for comparison, and stands in for `crowd.json` until there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import number
from benchmarks.markdown import BARE, OURS, ROOT, cell, results, strong, table

CROWD = Path("benchmarks/results/crowd.json")
BEFORE = Path("benchmarks/results/crowd-before.json")


def newest() -> Path:
    """Return the run that the page shows."""
    return CROWD if (ROOT / CROWD).exists() else BEFORE


def limit(path: Path) -> Iterator[str]:
    """Yield the section of the limit."""
    run = results(path)
    tables = run["tables"]
    yield from ("", "## The limit", "", _LIMIT, "", _run(path, run), "")
    columns = ("1 task", "64 tasks", "512 tasks")
    rows = []
    for name in tables["pairs"]["rows"]:
        if name.startswith((OURS, BARE)):
            rates, client, server = (
                [tables[each]["rows"][name][column]["median"] for column in columns]
                for each in (
                    "pairs",
                    "processor time of pairs",
                    "server's processor time of pairs",
                )
            )
            rows.append((strong(name), *map(number, (*rates, *client[1:], *server[1:]))))
    heads = [f"pairs/s, {column}" for column in columns]
    heads += [f"{who} µs, {column}" for who in ("client", "server") for column in columns[1:]]
    yield from table(("", *heads), rows)


_LIMIT = (
    "Two bare streams show where the time of a pair goes. Both have one connection, and do nothing"
    " but send and read. *bare stream* sends the two scripts of this library. *least scripts* sends"
    " the least that a lock needs: EXISTS, HINCRBY, PEXPIRE to acquire; HEXISTS, DEL, PUBLISH to"
    " release. How to read it: the client's time of redisson_py less that of *bare stream* is the"
    " cost of leases, renewal, waiting and cancellation in the client. The server's time of *bare"
    " stream* less that of *least scripts* is the cost of re-entry, and of repeats after a broken"
    " connection, in our scripts. *packed by hiredis* is a simpler client with our scripts."
    " Processor time is that of one pair; other work on the machine changes it less than the rates."
)


def crowd(path: Path) -> Iterator[str]:
    """Yield the section of the crowd."""
    run = results(path)
    tables = run["tables"]
    yield from ("", "## A crowd of clients", "", _CLIENTS, "", _run(path, run), "")
    if path == BEFORE:
        yield from (_STANDS_IN, "")
    yield from _growth(tables["crowd"]["rows"])
    picture = path.with_name(f"{path.stem}-clients.png")
    yield ""
    yield f"![Hand-offs, scripts, longest wait and evenness by number of clients](../{picture})"
    yield from ("", "Every kind of redisson_py:", "")
    yield from _growth(tables["crowd, every kind"]["rows"])
    if path != BEFORE:
        before = results(BEFORE)
        yield from ("", "### Before the client queue", "", _BEFORE, "", _run(BEFORE, before), "")
        yield from _growth(before["tables"]["crowd, every kind"]["rows"])


_CLIENTS = (
    "Clients with a connection and one task each want one name, all in one process, with empty"
    " sections. A hand-off is a grant to another client than the one before. *scripts* are those of"
    " all clients for one hand-off, *pushes* the messages that all of them receive for it. Where"
    " they do not grow with the number of clients, those that wait cost nothing. *rounds* is the"
    " longest wait divided by the time in which every client could have had one hand-off; below 1"
    " the run was too short to see its end. *Jain's index* is 1 where all clients got in equally"
    " often, and 1/n where one of n got everything. redis-py polls: a client that has released"
    " mostly acquires again before another one asks. It acquires by SET, which counts as a script."
    " Cells have a figure for each number of clients; *?*: nobody handed on in that time."
    " Of Redisson there are at most 128, and its pushes are not counted."
)
_STANDS_IN = (
    "**These figures, and those of The limit, are of the release before the client queue.** `make"
    " bench-crowd` measures again."
)
_BEFORE = "The same run of the release before, in which each release woke one task in every client:"


def _run(path: Path, run: dict[str, Any]) -> str:
    """Return what a reader must know of another run than the whole one."""
    machine, versions = run["machine"], run["versions"]
    return (
        f"[Run](../{path}) of {run['date']}, commit `{versions['commit']}`, {versions['server']},"
        f" Python {versions['python']}, {machine['processor']}, {machine['processors']} cores; load"
        f" of the machine before it: {number(machine['load before'])}."
    )


#: Columns of the page, and of the runs.
_COLUMNS = {
    "scripts": "scripts",
    "pushes": "pushes",
    "hand-offs/s": "hand-offs/s",
    "longest wait, ms": "longest wait ms",
    "rounds": "longest wait in rounds",
    "Jain's index": "Jain's index",
}


def _growth(rows: dict[str, Any]) -> Iterator[str]:
    """Yield a line a side or kind, whose cells have the figures of all numbers of clients."""
    curves: dict[str, list[dict[str, Any]]] = {}
    numbers: dict[str, None] = {}
    for row, cells in rows.items():
        what, _, clients = row.rpartition(", ")
        curves.setdefault(what, []).append(cells)
        numbers[clients] = None
    yield from table(
        (f"{' / '.join(numbers)} clients", *_COLUMNS),
        [
            (
                strong(what),
                *(_series(each, column) for column in _COLUMNS.values()),
            )
            for what, each in curves.items()
        ],
    )


def _series(each: list[dict[str, Any]], column: str) -> str:
    if not any(column in cells for cells in each):
        return ""
    return " / ".join(cell(cells, column) or "?" for cells in each)
