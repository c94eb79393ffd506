"""The end of the demo: the two tables, what happened, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from examples.console import labelled
from examples.demo.phase import Outcome

_BOOKS = {"file": "ledger file", "key": "Redis key"}
_BAD, _GOOD = "bold red", "bold green"


def report(unlocked: Outcome, locked: Outcome) -> RenderableType:
    """Return the numbers of both phases."""
    return Group(
        "",
        *_details(locked),
        "",
        *_numbers("Without the lock", unlocked),
        "",
        *_numbers("With the lock", locked),
        "",
    )


def conclusion(name: str, outcome: Outcome) -> Text:
    """Return in a line what a phase showed."""
    lost = sum(account.lost for account in outcome.accounts)
    expected = sum(account.expected.bookings for account in outcome.accounts)
    if lost or not all(account.correct for account in outcome.accounts):
        return Text(f"{name}: {lost:,} of {expected:,} bookings lost", _BAD)
    return Text(f"{name}: nothing lost{_although(outcome)}", _GOOD)


def problems(unlocked: Outcome, locked: Outcome) -> list[str]:
    """Return what is not as it should be; nothing, if all is well."""
    wrong = _wrong_shocks if locked.shocks else _wrong_faults
    return [*_nothing_shown(unlocked), *_wrong_totals(locked), *_untold(locked), *wrong(locked)]


def _numbers(title: str, outcome: Outcome) -> Iterator[RenderableType]:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(title, header_style="bold", min_width=len("Without the lock"), no_wrap=True)
    for head in ("BOOKED", "IN THE BOOK", "LOST", "MONEY MISSING"):
        table.add_column(head, justify="right", no_wrap=True)
    for account in outcome.accounts:
        style = _GOOD if account.correct else _BAD
        missing = account.expected.cents - account.actual.cents
        table.add_row(
            f"  {_BOOKS[account.store]}",
            f"{account.expected.bookings:,}",
            f"{account.actual.bookings:,}",
            Text(f"{account.lost:,}", style),
            Text(f"{missing / 100:,.2f}", style),
        )
    yield table
    yield conclusion(title, outcome)


def _although(outcome: Outcome) -> str:
    """Return what happened to the workers or the cluster meanwhile."""
    if outcome.shocks:
        killed = sum("killed" in shock.what for shock in outcome.shocks)
        moved = len(outcome.shocks) - killed
        return f", though {killed} masters were killed and slots moved {moved} times"
    if outcome.faults:
        return ", though one worker was killed and one was stopped"
    return ""


def _details(locked: Outcome) -> Iterator[RenderableType]:
    for name, text in _facts(locked):
        yield labelled(Text(name, "dim"), text, width=len("bookings failed"), justify="left")
    if any(fault.what == "killed" for fault in locked.faults):
        yield Text(
            "\nThe killed worker wrote the file but not the key: a lock keeps others out, but two "
            "writes stay two. Each book has exactly what was written to it.",
            "dim",
        )


def _facts(locked: Outcome) -> Iterator[tuple[str, str]]:
    yield from _timing(locked)
    yield "losses noticed", str(locked.losses)
    if locked.shocks:
        killed = sum("killed" in shock.what for shock in locked.shocks)
        yield "masters killed", str(killed)
        yield "slots moved", str(len(locked.shocks) - killed)
        yield "losses missed", str(locked.untold)
        yield "bookings failed", f"{locked.failed}, each raised in its task"
    else:
        for what in ("killed", "stopped"):
            yield f"workers {what}", str(sum(fault.what == what for fault in locked.faults))
    if uncertain := sum(account.uncertain for account in locked.accounts):
        yield "in doubt", f"{uncertain} bookings, settled by the books themselves"
    if locked.exposed:
        yield "exposed", f"{locked.exposed} writes during which the lease ended"


def _timing(locked: Outcome) -> Iterator[tuple[str, str]]:
    grants = locked.grants
    between = sum(before[2] != after[2] for before, after in pairwise(grants))
    rate = len(grants) / locked.seconds
    yield (
        "hand-offs",
        f"{len(grants):,} ({rate:.0f}/s, faults included), {between:,} of them between processes",
    )
    usual: list[float] = []
    delayed: list[float] = []
    for granted_at, waited, _ in grants:
        struck = any(fault.delayed(granted_at, waited) for fault in locked.faults)
        (delayed if struck else usual).append(waited * 1000)
    if usual:
        yield "wait", f"p50 {_quantile(usual, 0.5):.1f} ms, p99 {_quantile(usual, 0.99):.1f} ms"
    if delayed:
        yield (
            "wait meanwhile",
            f"{len(delayed)} tasks waited for a struck worker's lease, the longest "
            f"{max(delayed):.0f} ms (the stopped worker's own tasks included)",
        )


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _nothing_shown(unlocked: Outcome) -> Iterator[str]:
    for account in unlocked.accounts:
        if account.lost <= 0:
            yield (
                f"without the lock the {_BOOKS[account.store]} lost nothing, so the demo shows "
                "nothing; try more --workers, --tasks or --seconds"
            )


def _wrong_totals(locked: Outcome) -> Iterator[str]:
    for account in locked.accounts:
        if not account.correct:
            yield f"with the lock the {_BOOKS[account.store]} is not what it should be"
            if locked.exposed:
                yield (
                    f"{locked.exposed} writes were overtaken by the end of their lease: this "
                    "machine paused a worker between its last look and its write, from which "
                    "only a fencing token (get_fenced_lock) protects; try on a less busy machine"
                )
        if account.expected.bookings == 0:
            yield "with the lock nothing was booked"


def _untold(locked: Outcome) -> Iterator[str]:
    if locked.untold:
        yield (
            f"{locked.untold} times a worker acquired the lock while another one had it and did not"
            " learn of its loss"
        )


def _wrong_shocks(locked: Outcome) -> Iterator[str]:
    for shock in locked.shocks:
        if shock.workers_took is None:
            yield f"no worker acquired the lock after: {shock}"


def _wrong_faults(locked: Outcome) -> Iterator[str]:
    for fault in locked.faults:
        if not fault.was_holder:
            yield f"{fault.worker} did not hold the lock when it was {fault.what}"
        if fault.recovered_after is None:
            yield f"no other worker acquired the lock of {fault.worker}, which was {fault.what}"
        if fault.what == "stopped" and fault.noticed_after is None:
            yield f"{fault.worker} slept past its lease and did not learn of the loss"
    if {fault.what for fault in locked.faults} != {"killed", "stopped"}:
        yield "not every fault was tried"
