"""The ratios that issue 4 asks for, from the tables of one run."""

from __future__ import annotations

from benchmarks.harness import Goal, Spread, Table, number
from benchmarks.rivals import BARE, OURS, OURS_UVLOOP, REDIS_PY, REDIS_PY_64
from benchmarks.scenarios import handoff, processes, uncontended

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
        Goal(
            "hand-off across two processes",
            _find(tables, processes.NAME, processes.row(OURS, 2, 1), handoff.MULTIPLE),
            *("less", 4.0, 3.0, "RTT"),
            _beside_the_limit(tables),
        ),
        _uvloop(tables),
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


def _beside_the_limit(tables: Tables) -> str:
    """Return a hand-off across two processes in multiples of the least it can take here."""
    ours, limit, rested = (
        _find(tables, processes.NAME, row, handoff.MEDIAN)
        for row in (
            processes.row(OURS, 2, 1),
            processes.row(BARE, 2, 1),
            handoff.rested_row(OURS),
        )
    )
    if ours is None or limit is None or rested is None:
        return ""
    return (
        f"{ours.over(limit)} x {BARE}, {number(ours.median / rested.median)} x a PING after a rest"
    )


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
