"""What the protected resource saw: the referee's rules, by `tests.system.referee`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.jepsen.checkers.fencing import counter_and_clock_lost
from tests.jepsen.checkers.holds import disturbed
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import EXCUSED, Facts, Verdict, Violation
from tests.jepsen.history import History, Op
from tests.system.referee import Ask, Begin, Event, Write, violations

#: The rules of the referee that speak of tokens.
_OF_TOKENS = ("smaller token accepted", "tokens not in order")


@judged(unless=counter_and_clock_lost, words=("ask", "begin", "write"))
def referee(history: History, facts: Facts) -> Verdict:
    """No smaller token is accepted, nobody is overtaken, and no update is lost.

    That must hold whatever happens where the resource checks tokens. A resource that accepts every
    write is protected as long as no hold is lost; where one is, its violations are a figure. A
    window is the time from the moment in which a newer section began to a later write of an older
    one that was accepted: only the resource's own order and clock count.
    """
    found: list[Violation] = []
    looked_at = 0
    excused: Counter[str] = Counter()
    windows: list[float] = []
    unsafe = disturbed(history)
    for obj, ops in history.by_object("ask", "begin", "write").items():
        steps = list(_known(ops))
        looked_at += len(steps)
        fenced = any(op.fence for op in steps)
        for each in violations(_log(steps)):
            if not fenced and each.rule in _OF_TOKENS:
                continue
            if not fenced and each.rule == "overtaken":
                begun = _overtaking(steps[: each.place], steps[each.place].rid)
                windows.append((steps[each.place].t0 - begun.t0) / 1e6)
            if not fenced and obj in unsafe:
                excused[each.rule] += 1
                continue
            exact = each.rule == "lost update"
            shown = _update(steps, each.place) if exact else (steps[each.place],)
            found.append(Violation(f"{each.rule}: {obj}", shown, exact))
    figures: dict[str, object] = {
        "windows": len(windows),
        "longest window": f"{max(windows, default=0):.2f} ms",
        "windows in all": f"{sum(windows):.2f} ms",
    }
    return Verdict(found, looked_at, figures | ({EXCUSED: dict(excused)} if excused else {}))


def _overtaking(steps: Sequence[Op], section: str) -> Op:
    """Return the beginning of the first section that is newer than this one.

    As `violations` has it, newer is what was asked for after this one had begun. A hold that is
    passed on was asked for when the first of its sections that began was.
    """
    asked = {op.rid: place for place, op in enumerate(steps) if op.op == "ask"}
    granted: dict[str, int] = {}
    begun: int | None = None
    for place, op in enumerate(steps):
        if op.op == "begin":
            grant = granted.setdefault(op.owner, asked[op.rid])
            if begun is not None and grant > begun:
                return op
            begun = place if op.rid == section else begun
    raise AssertionError(section)


def _known(ops: Sequence[Op]) -> Iterator[Op]:
    """Yield the steps whose section is known from its beginning."""
    asked: set[str] = set()
    begun: set[str] = set()
    for op in ops:
        if op.op == "ask":
            asked.add(op.rid)
        elif op.op == "begin" and op.rid in asked:
            begun.add(op.rid)
        elif op.op != "write" or op.rid not in begun:
            continue
        yield op


def _update(steps: Sequence[Op], place: int) -> tuple[Op, ...]:
    """Return the section that wrote there, and the section of the write accepted before it."""
    before = (op for op in reversed(steps[:place]) if op.op == "write" and op.out == "ok")
    rids = {steps[place].rid, *[op.rid for op in list(before)[:1]]}
    return tuple(op for op in steps[: place + 1] if op.rid in rids)


def _log(steps: Sequence[Op]) -> list[Event]:
    """Return the log of the referee; its number begins where the first write found it."""
    first = next((op.value for op in steps if op.op == "write" and op.out == "ok"), 1)
    log: list[Event] = []
    for op in steps:
        token = op.fence or 0
        match op.op:
            case "ask":
                log.append(Ask(op.rid))
            case "begin":
                log.append(Begin(op.rid, op.owner, token))
            case _:
                log.append(Write(op.rid, token, op.value - first + 1, op.out == "ok"))
    return log
