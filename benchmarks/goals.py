"""The figures that issues 13, 5 (Redisson) and 15 (topologies) ask for, from one run's tables.

Nearly all are ratios within the run. The rest are counts, or times that only a machine like the
one of the issue can be asked for: those say so.
"""

from __future__ import annotations

import sys
from typing import Literal

from benchmarks.harness import Goal, Spread, Table, number
from benchmarks.rivals import (
    BARE,
    BARE_LEAST,
    BARE_PACKING,
    OURS,
    OURS_UNSYNCED,
    OURS_UVLOOP,
    POTTERY,
    POTTERY_THREADS,
    REDIS_PY,
    REDIS_PY_64,
    REDIS_PY_CLUSTER,
    REDISSON,
    REDISSON_ASYNC,
    REDISSON_ASYNC_8,
    RUEIDISLOCK,
)
from benchmarks.rivals.kinds import FAIR, LOCK, READ, SEMAPHORE, WRITE
from benchmarks.scenarios import (
    calls,
    crowd,
    growth,
    handoff,
    imports,
    primitives,
    processes,
    recovery,
    red_locks,
    renewals,
    topologies,
    uncontended,
)
from benchmarks.sizes import SIZES

Tables = dict[str, Table]

#: The issue asks for less on Python 3.11, in one row.
_AT_512 = 0.65 if sys.version_info < (3, 12) else 0.75


def goals(tables: Tables) -> list[Goal]:
    """Return every goal, measured or not."""
    return [
        _calls(tables),
        _pairs(tables, 512, BARE_PACKING, _AT_512, 0.9, BARE, BARE_LEAST),
        _pairs(tables, 64, BARE_PACKING, 0.85, 0.95, BARE, BARE_LEAST),
        _pairs(tables, 1, BARE_PACKING, 0.92, 1.0, BARE, BARE_LEAST),
        _pairs(tables, 1, RUEIDISLOCK, 0.8, 0.9),
        _pairs(tables, 64, RUEIDISLOCK, 0.85, 1.0),
        _pairs(tables, 512, RUEIDISLOCK, 1.05, 1.4),
        _pairs(tables, 1, REDIS_PY, 1.2, 1.3),
        _pairs(tables, 64, REDIS_PY, 6.5, 8.0, REDIS_PY_64),
        _pairs(tables, 512, REDIS_PY, 9.5, 14.0, REDIS_PY_64),
        *[_beside_the_lock(tables, kind) for kind in (FAIR, READ, WRITE, SEMAPHORE)],
        Goal(
            "hand-off in one process, 10 tasks",
            _find(tables, handoff.NAME, handoff.row(OURS, 10), handoff.MULTIPLE),
            *("less", 0.15, 0.07, "RTT"),
        ),
        _across(tables, "hand-off across two processes", LOCK, 1.1, 1.05),
        _across(tables, "fair hand-off across two processes", FAIR, 1.4, 1.2),
        *_crowd(tables),
        _red(tables, 1, 2.3, 3.0),
        _red(tables, 64, 7.0, 9.0),
        *_held(tables),
        _uvloop(tables),
        _import(tables),
        _redisson(tables, 1, 1.0),
        _redisson(tables, 64, 4.0),
        _redisson(tables, 512, 4.0),
        *_topologies(tables),
        *[_recovery(tables, what) for what in SIZES["full"].outages],
    ]


def _calls(tables: Tables) -> Goal:
    """Return the calls of a pair on uvloop, whose own are not counted."""
    found, on_asyncio = (
        _find(tables, calls.NAME, side, calls.COLUMN) for side in (OURS_UVLOOP, OURS)
    )
    detail = "" if on_asyncio is None else f"with those of asyncio itself: {on_asyncio}"
    return Goal("function calls of a pair", found, "less", 82, 70, "", detail)


def _pairs(
    tables: Tables, tasks: int, other: str, at_least: float, aim: float, *beside: str
) -> Goal:
    column = uncontended.column(tasks)
    found = _ratio(tables, column, other)
    extra = {side: ratio for side in beside if (ratio := _ratio(tables, column, side)) is not None}
    detail = "; ".join(f"{ratio} x {side}" for side, ratio in extra.items())
    return Goal(f"{column} against {other}", found, "more", at_least, aim, "x", detail)


def _ratio(tables: Tables, column: str, other: str) -> Spread | None:
    ours = _find(tables, uncontended.NAME, OURS, column)
    theirs = _find(tables, uncontended.NAME, other, column)
    return None if ours is None or theirs is None else ours.relative_to(theirs)


def _find(tables: Tables, table: str, row: str, column: str) -> Spread | None:
    return tables[table].find(row, column) if table in tables else None


def _across(tables: Tables, name: str, kind: str, at_least: float, aim: float) -> Goal:
    """Return a hand-off across two processes, in multiples of the bare stream's."""
    row, bare = processes.row(OURS, 2, 1, kind), processes.row(BARE, 2, 1)
    ours, limit, warm, rested = (
        _find(tables, processes.NAME, one, handoff.MEDIAN)
        for one in (row, bare, handoff.warm_row(OURS), handoff.rested_row(OURS))
    )
    found = None if ours is None or limit is None else ours.relative_to(limit)
    detail = ""
    if ours is not None and limit is not None and warm is not None and rested is not None:
        detail = (
            f"{number(ours.median / rested.median)} x a PING after a rest; us:"
            f" {number(ours.median)}, {BARE} {number(limit.median)}, PING {number(warm.median)},"
            f" after a rest {number(rested.median)}"
        )
    return Goal(name, found, "less", at_least, aim, f"x {BARE}", detail)


def _crowd(tables: Tables) -> list[Goal]:
    """Return what is asked of a crowd of clients, of the kind and number that are worst."""
    rows = tables[crowd.NAME_KINDS].rows if crowd.NAME_KINDS in tables else {}

    def cells(column: str) -> dict[str, Spread]:
        return {row: found[column] for row, found in rows.items() if column in found}

    few, many = (growth.row("", clients) for clients in (2, 128))
    rates = cells(crowd.RATE)
    kept = {
        kind: rate.relative_to(rates[kind + few])
        for row, rate in rates.items()
        if row.endswith(many) and (kind := row.removesuffix(many)) + few in rates
    }

    def goal(
        what: str,
        found: dict[str, Spread],
        better: Literal["more", "less"],
        at_least: float,
        aim: float,
        unit: str = "",
    ) -> Goal:
        worst = max if better == "less" else min
        row = worst(found, key=lambda row: found[row].median, default="")
        return Goal(f"crowd: {what}, worst", found.get(row), better, at_least, aim, unit, row)

    return [
        goal("scripts of a hand-off", cells(crowd.SCRIPTS), "less", 4, 3),
        goal("pushes of a hand-off", cells(crowd.PUSHES), "less", 3, 2),
        goal("hand-offs/s of 128 clients", kept, "more", 0.5, 0.8, "x of 2 clients"),
        goal("longest wait", cells(crowd.ROUNDS), "less", 3, 2, "x clients x mean"),
        goal("Jain's index", cells(crowd.EVENNESS), "more", 0.95, 0.99),
    ]


def _beside_the_lock(tables: Tables, kind: str) -> Goal:
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
    return Goal(name, ratios.get(worst), "more", 0.85, 0.95, "x", "; ".join(columns))


def _red(tables: Tables, tasks: int, at_least: float, aim: float) -> Goal:
    """Return the pairs of red locks beside the faster of pottery's two."""
    column = uncontended.column(tasks)
    ours = _find(tables, red_locks.NAME, OURS, column)
    theirs = {
        side: cell
        for side in (POTTERY, POTTERY_THREADS)
        if (cell := _find(tables, red_locks.NAME, side, column)) is not None
    }
    ratios = (
        {side: ours.relative_to(cell) for side, cell in theirs.items()} if ours is not None else {}
    )
    closest = min(ratios, key=lambda side: ratios[side].median, default="")
    detail = "; ".join(f"{ratio} x {side}" for side, ratio in ratios.items() if side != closest)
    name = f"red lock on 5 servers, {column}, against {POTTERY}"
    return Goal(name, ratios.get(closest), "more", at_least, aim, "x", detail)


def _held(tables: Tables) -> list[Goal]:
    """Return what held locks cost; a smaller run holds fewer, but renews as many a second."""
    rows = tables[renewals.NAME].rows if renewals.NAME in tables else {}
    row = next((one for one in rows if one.startswith(f"{OURS}, ")), "")
    cells = rows.get(row, {})
    detail = "" if row in ("", renewals.row(OURS, SIZES["full"].held)) else f"found with {row}"
    memory, by_tasks = (
        None if cell is None else Spread([one / 1024 for one in cell.rounds])
        for cell in (cells.get(renewals.BYTES), cells.get(renewals.BYTES_TASK_EACH))
    )
    more = [detail] if detail else []
    if by_tasks is not None:
        more.append(f"acquired by a task each: {by_tasks} KiB")
    processor, stand, collection = (
        cells.get(column) for column in (renewals.PROCESSOR, renewals.STAND, renewals.COLLECTION)
    )
    stands = [detail] if detail else []
    if collection is not None:
        stands.append(f"not among them, a full garbage collection: {collection} ms")
    title = "100,000 held locks"
    return [
        Goal(f"{title}: processor", processor, "less", 12, 8, "%", detail),
        Goal(f"{title}: longest stand of the loop", stand, "less", 25, 15, "ms", "; ".join(stands)),
        Goal(f"{title}: memory of each", memory, "less", 1.2, 0.8, "KiB", "; ".join(more)),
    ]


def _import(tables: Tables) -> Goal:
    found, redis = (
        _find(tables, imports.NAME, row, imports.COLUMN) for row in (imports.OURS, imports.REDIS)
    )
    detail = "" if redis is None else f"{imports.REDIS}: {redis} ms"
    return Goal(imports.OURS, found, "less", 90, 60, "ms", detail)


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
                ratios[f"{name}, {column}"] = on_uvloop.relative_to(ours)
    for name in (handoff.NAME, processes.NAME):
        for row, cells in tables[name].rows.items() if name in tables else ():
            if row.startswith(OURS_UVLOOP) and handoff.MULTIPLE in cells:
                case = row.removeprefix(OURS_UVLOOP)
                ours = _find(tables, name, OURS + case, handoff.MEDIAN)
                on_uvloop = _find(tables, name, row, handoff.MEDIAN)
                if ours is not None and on_uvloop is not None:
                    # Microseconds: less is better.
                    ratios[f"{name}{case}"] = ours.relative_to(on_uvloop)
    worst = min(ratios, key=lambda what: ratios[what].median, default="")
    slower = sum(ratio.median < 1 for ratio in ratios.values())
    detail = f"slower in {slower} of {len(ratios)} rows, most in: {worst}" if ratios else ""
    found = ratios.get(worst)
    return Goal("uvloop against asyncio, worst row", found, "more", 1.0, 1.2, "x", detail)


def _topologies(tables: Tables) -> list[Goal]:
    """Return what a cluster costs: the worst column of each comparison."""
    cells = tables[topologies.NAME].rows if topologies.NAME in tables else {}
    on_one, on_cluster, unsynced, with_sentinel = (
        topologies.row(side, server)
        for side, server in (
            (OURS, topologies.ONE),
            (OURS, topologies.CLUSTER),
            (OURS_UNSYNCED, topologies.CLUSTER),
            (OURS_UNSYNCED, topologies.SENTINEL),
        )
    )

    def goal(name: str, ours: str, other: str, at_least: float) -> Goal:
        ratios = {
            column: cell.relative_to(cells[other][column])
            for column, cell in cells.get(ours, {}).items()
            if column in cells.get(other, {})
        }
        worst = min(ratios, key=lambda column: ratios[column].median, default="")
        detail = "; ".join(f"{column}: {ratio}" for column, ratio in ratios.items())
        return Goal(f"{name}, worst column", ratios.get(worst), "more", at_least, None, "x", detail)

    rivals = (topologies.row(side, topologies.CLUSTER) for side in (REDIS_PY_CLUSTER, REDISSON))
    return [
        goal("cluster against one server", unsynced, on_one, 0.5),
        goal("Sentinel against one server", with_sentinel, on_one, 0.5),
        goal("confirmed by a replica against not", on_cluster, unsynced, 0.6),
        *[goal(f"against {rival}", on_cluster, rival, 1.0) for rival in rivals],
    ]


def _recovery(tables: Tables, what: str) -> Goal:
    """Return the longest time without a pair, less what it may be late, over the server's own."""
    late = 0.25
    table = tables.get(recovery.NAME)
    cells = {} if table is None else table.rows.get(f"{what}: {OURS}", {})
    gap, server = cells.get(recovery.GAP), cells.get(recovery.SERVER)
    found = None
    if gap is not None and server is not None:
        found = Spread([max(0.0, gap - late) for gap in gap.rounds]).relative_to(server)
    details = [
        f"{side}: {cell} x"
        for side in (OURS, REDIS_PY_CLUSTER, REDISSON)
        if table is not None
        and (cell := table.find(f"{what}: {side}", recovery.MULTIPLE)) is not None
    ]
    unit = f"x server's + {late} s"
    return Goal(f"recovery: {what}", found, "less", 1.25, None, unit, "; ".join(details))
