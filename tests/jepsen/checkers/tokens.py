"""Fencing tokens grow, and what they protect is never overwritten by an older holder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from tests.jepsen.checkers.holds import by_use, disturbed, granted
from tests.jepsen.checkers.judging import judged, never
from tests.jepsen.checkers.verdict import EXCUSED, Facts, Verdict, Violation
from tests.jepsen.history import History, Op
from tests.system.referee import Ask, Begin, Event, Write, violations

#: How workloads name what has tokens.
_WITH_TOKENS = ("fenced", "election")


def counter_and_clock_lost(broken: frozenset[str]) -> bool:
    """Return whether tokens may go back: the counter was lost, and the clock was set back."""
    return "clocks" in broken and bool(broken & {"data", "keys"})


@judged(unless=counter_and_clock_lost)
def fencing(history: History, facts: Facts) -> Verdict:
    """Tokens are unique, grow in real-time order, and stay the same when a task re-enters.

    Of a hold that was handed over, the adopter has the giver's: see `adoption`.
    Each grant of an object whose name begins with `fenced` or `election` must have one. A hold that
    was passed on inside a process has a token of when Redis granted it: if Redis lost it since,
    that is all its tokens promise (`FencedLock`).
    """
    found: list[Violation] = []
    looked_at = 0
    lossy = bool(facts.broken & {"data", "keys"})
    for obj, ops in history.by_object("acquire").items():
        grants = [op for op in ops if op.out == "ok" and op.fence is not None]
        looked_at += len(grants)
        found += _without(obj, ops)
        found += _repeated(obj, [op for op in grants if op.value is None])
        found += _backwards(obj, grants, _asked(ops) if lossy else {})
    for (obj, _), ops in by_use(history, "acquire", "reenter").items():
        grant = granted(ops)
        for op in ops:
            if op.op != "reenter" or op.out != "ok" or grant is None or grant.fence is None:
                continue
            looked_at += 1
            if op.fence is not None and op.fence != grant.fence:
                found.append(Violation(f"another token of {obj} on re-entry", (grant, op)))
    return Verdict(found, looked_at)


def _without(obj: str, ops: list[Op]) -> Iterator[Violation]:
    for op in ops if obj.startswith(_WITH_TOKENS) else ():
        if op.out == "ok" and op.fence is None:
            yield Violation(f"a grant of {obj} has no token", (op,))


def _repeated(obj: str, grants: list[Op]) -> list[Violation]:
    given: dict[int | None, Op] = {}
    found: list[Violation] = []
    for op in grants:
        other = given.setdefault(op.fence, op)
        if other is not op:
            found.append(Violation(f"one token for two grants of {obj}", (other, op)))
    return found


def _asked(ops: list[Op]) -> dict[str, int]:
    """Return when the first task of each owner asked: its hold was granted no earlier."""
    asked: dict[str, int] = {}
    for op in ops:
        if op.owner:
            asked[op.owner] = min(op.t0, asked.get(op.owner, op.t0))
    return asked


def _backwards(obj: str, grants: list[Op], asked: Mapping[str, int]) -> list[Violation]:
    """Find grants that were asked for after another had returned, with a smaller token.

    Args:
        obj: What was acquired.
        grants: All of its grants.
        asked: When each owner asked, where that counts instead of when its present task did.
    """
    since = {op.rid: asked.get(op.owner, op.t0) for op in grants}
    grants = sorted(grants, key=lambda op: since[op.rid])
    found: list[Violation] = []
    ended = sorted(grants, key=attrgetter("end"))
    index = 0
    greatest: Op | None = None
    for op in grants:
        while index < len(ended) and ended[index].end < since[op.rid]:
            other = ended[index]
            if greatest is None or (other.fence or 0) > (greatest.fence or 0):
                greatest = other
            index += 1
        if greatest is not None and (op.fence or 0) < (greatest.fence or 0):
            found.append(Violation(f"a later grant of {obj} has a smaller token", (greatest, op)))
    return found


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
                begun = _overtaking(steps[: each.position], steps[each.position].rid)
                windows.append((steps[each.position].t0 - begun.t0) / 1e6)
            if not fenced and obj in unsafe:
                excused[each.rule] += 1
                continue
            exact = each.rule == "lost update"
            shown = _update(steps, each.position) if exact else (steps[each.position],)
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
    asked = {op.rid: index for index, op in enumerate(steps) if op.op == "ask"}
    granted: dict[str, int] = {}
    begun: int | None = None
    for index, op in enumerate(steps):
        if op.op == "begin":
            grant = granted.setdefault(op.owner, asked[op.rid])
            if begun is not None and grant > begun:
                return op
            begun = index if op.rid == section else begun
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


def _update(steps: Sequence[Op], index: int) -> tuple[Op, ...]:
    """Return the section that wrote there, and the section of the write accepted before it."""
    before = (op for op in reversed(steps[:index]) if op.op == "write" and op.out == "ok")
    rids = {steps[index].rid, *[op.rid for op in list(before)[:1]]}
    return tuple(op for op in steps[: index + 1] if op.rid in rids)


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


@judged(unless=never)
def set_add(history: History, facts: Facts) -> Verdict:
    """The last read has every element whose `add` had ended well before it, and none twice.

    Nor one whose `add` was refused, or that nobody added. With tokens this holds whatever happens.
    Without, it holds as long as no hold of the object is lost; what is lost after that is a figure.
    """
    found: list[Violation] = []
    looked_at = lost = 0
    unsafe = disturbed(history)
    read = {op.obj: op for op in history.of("read") if isinstance(op.value, list)}
    added = history.by_object("add")
    for obj, last in read.items():
        adds = added.get(obj, [])
        looked_at += len(adds)
        wrong = list(_wrong(obj, adds, last))
        if obj not in unsafe or any(op.fence for op in adds):
            found += wrong
        else:
            lost += len(wrong)
    return Verdict(found, looked_at, {"lost without tokens": lost})


def _wrong(obj: str, adds: Sequence[Op], last: Op) -> Iterator[Violation]:
    there = Counter(last.value)
    possible: set[object] = set()
    for op in adds:
        if op.out != "fail":
            possible.add(op.value)
        if op.out == "ok" and op.end < last.t0 and op.value not in there:
            yield Violation(f"an acknowledged element of {obj} is lost", (op, last), True)
        if op.out == "ok" and there[op.value] > 1:
            yield Violation(f"an element of {obj} is there twice", (op, last), True)
        if op.out == "fail" and op.value in there:
            yield Violation(f"a refused element of {obj} is there", (op, last), True)
    if there.keys() - {op.value for op in adds}:
        yield Violation(f"an element of {obj} is there that nobody added", (last,), True)
