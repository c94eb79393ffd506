"""The ratios that issues 4, 5 and 6 ask for, from the tables of one run."""

from __future__ import annotations

from benchmarks.harness import Goal, Spread, Table, number
from benchmarks.rivals import (
    BARE,
    OURS,
    OURS_UVLOOP,
    POTTERY,
    POTTERY_THREADS,
    REDIS_PY,
    REDIS_PY_64,
    REDISSON,
    REDISSON_ASYNC,
    REDISSON_ASYNC_8,
)
from benchmarks.rivals.kinds import FAIR, LOCK, READ, SEMAPHORE, WRITE
from benchmarks.scenarios import handoff, primitives, processes, red_locks, uncontended

Tables = dict[str, Table]


def goals(tables: Tables) -> list[Goal]:
    """Return every goal, measured or not."""
    return [
        _pairs(tables, 1, REDIS_PY, 1.0, 1.3),
        _pairs(tables, 64, REDIS_PY, 6.0, 9.0),
        _pairs(tables, 512, REDIS_PY, 10.0, 15.0, beside=REDIS_PY_64),
        _pairs(tables, 512, BARE, 0.6, 0.8),
        Goal(
            "hand-off in one process, 10 tasks",
            _find(tables, handoff.NAME, handoff.row(OURS, 10), handoff.MULTIPLE),
            *("less", 0.3, 0.1, "RTT"),
        ),
        _across(tables, "hand-off across two processes", LOCK, 3.0),
        _uvloop(tables),
        _beside_the_lock(tables, WRITE, 0.8),
        _beside_the_lock(tables, READ, 0.8),
        _beside_the_lock(tables, SEMAPHORE, 0.8),
        _beside_the_lock(tables, FAIR, 0.6),
        _across(tables, "fair hand-off across two processes", FAIR, None),
        _red(tables, 1, 3.0),
        _red(tables, 64, 8.0),
        _redisson(tables, 1, 1.0),
        _redisson(tables, 64, 4.0),
        _redisson(tables, 512, 4.0),
    ]


def _pairs(
    tables: Tables, tasks: int, other: str, at_least: float, aim: float, beside: str | None = None
) -> Goal:
    column = uncontended.column(tasks)
    found = _ratio(tables, column, other)
    extra = None if beside is None else _ratio(tables, column, beside)
    detail = "" if extra is None else f"{extra} x {beside}"
    return Goal(f"{column} against {other}", found, "more", at_least, aim, "x", detail)


def _ratio(tables: Tables, column: str, other: str) -> Spread | None:
    ours = _find(tables, uncontended.NAME, OURS, column)
    theirs = _find(tables, uncontended.NAME, other, column)
    return None if ours is None or theirs is None else ours.over(theirs)


def _find(tables: Tables, table: str, row: str, column: str) -> Spread | None:
    return tables[table].find(row, column) if table in tables else None


def _across(tables: Tables, name: str, kind: str, aim: float | None) -> Goal:
    """Return a hand-off across two processes, and multiples of the least it can take here."""
    row = processes.row(OURS, 2, 1, kind)
    found = _find(tables, processes.NAME, row, handoff.MULTIPLE)
    ours, limit, warm, rested = (
        _find(tables, processes.NAME, row, handoff.MEDIAN)
        for row in (
            row,
            processes.row(BARE, 2, 1),
            handoff.warm_row(OURS),
            handoff.rested_row(OURS),
        )
    )
    detail = ""
    if ours is not None and limit is not None and warm is not None and rested is not None:
        detail = (
            f"{ours.over(limit)} x {BARE}, {number(ours.median / rested.median)} x a PING after a"
            f" rest; us: {number(ours.median)}, {BARE} {number(limit.median)}, PING"
            f" {number(warm.median)}, after a rest {number(rested.median)}"
        )
    return Goal(name, found, "less", 4.0, aim, "RTT", detail)


def _beside_the_lock(tables: Tables, kind: str, at_least: float) -> Goal:
    """Return the pairs of a primitive beside the plain lock's, where they are worst."""
    ratios: dict[str, Spread] = {}
    if primitives.NAME in tables:
        cells = tables[primitives.NAME].rows.get(kind, {})
        ratios = {one: cell for one, cell in cells.items() if one.endswith(primitives.RATIO)}
    worst = min(ratios, key=lambda column: ratios[column].median, default="")
    columns = [
        f"{column.removesuffix(primitives.RATIO)}: {cell}" for column, cell in ratios.items()
    ]
    name = f"{kind} against lock, worst column"
    return Goal(name, ratios.get(worst), "more", at_least, None, "x", "; ".join(columns))


def _red(tables: Tables, tasks: int, at_least: float) -> Goal:
    """Return the pairs of red locks beside the faster of pottery's two."""
    column = uncontended.column(tasks)
    ours = _find(tables, red_locks.NAME, OURS, column)
    theirs = {
        side: cell
        for side in (POTTERY, POTTERY_THREADS)
        if (cell := _find(tables, red_locks.NAME, side, column)) is not None
    }
    ratios = {side: ours.over(cell) for side, cell in theirs.items()} if ours is not None else {}
    closest = min(ratios, key=lambda side: ratios[side].median, default="")
    detail = "; ".join(f"{ratio} x {side}" for side, ratio in ratios.items() if side != closest)
    name = f"red lock on 5 servers, {column}, against {POTTERY}"
    return Goal(name, ratios.get(closest), "more", at_least, None, "x", detail)


def _redisson(tables: Tables, tasks: int, at_least: float) -> Goal:
    """Return the pairs of tasks beside those of as many threads; its other ways as words."""
    column = uncontended.column(tasks)
    ways = (REDISSON_ASYNC, REDISSON_ASYNC_8)
    others = {way: ratio for way in ways if (ratio := _ratio(tables, column, way)) is not None}
    found = _ratio(tables, column, REDISSON)
    detail = "; ".join(f"{ratio} x {way}" for way, ratio in others.items())
    return Goal(f"{column} against {REDISSON}", found, "more", at_least, None, "x", detail)


def _uvloop(tables: Tables) -> Goal:
    """Return how fast uvloop is beside asyncio in the row where it is slowest."""
    ratios: dict[str, Spread] = {}
    for name in (uncontended.NAME, uncontended.NAME_TWO):
        for column in tables[name].rows.get(OURS_UVLOOP, ()) if name in tables else ():
            ours, on_uvloop = (_find(tables, name, side, column) for side in (OURS, OURS_UVLOOP))
            if ours is not None and on_uvloop is not None:
                ratios[f"{name}, {column}"] = on_uvloop.over(ours)
    for name in (handoff.NAME, processes.NAME):
        for row, cells in tables[name].rows.items() if name in tables else ():
            if row.startswith(OURS_UVLOOP) and handoff.MULTIPLE in cells:
                case = row.removeprefix(OURS_UVLOOP)
                ours = _find(tables, name, OURS + case, handoff.MEDIAN)
                on_uvloop = _find(tables, name, row, handoff.MEDIAN)
                if ours is not None and on_uvloop is not None:
                    # Microseconds: less is better.
                    ratios[f"{name}{case}"] = ours.over(on_uvloop)
    worst = min(ratios, key=lambda what: ratios[what].median, default="")
    slower = sum(ratio.median < 1 for ratio in ratios.values())
    detail = f"slower in {slower} of {len(ratios)} rows, most in: {worst}" if ratios else ""
    found = ratios.get(worst)
    return Goal("uvloop against asyncio, worst row", found, "more", 1.0, None, "x", detail)
