"""The end of the demo: the numbers, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from examples.demo.faults import MARGIN, Fault
from examples.demo.journal import Account
from examples.demo.phase import Outcome
from examples.demo.worker import LEASE_TIME

_BOOKS = {"file": "ledger file", "key": "Redis key"}


def report(unlocked: Outcome, locked: Outcome) -> str:
    """Return the numbers of both phases."""
    return "\n".join(_lines(unlocked, locked))


def problems(unlocked: Outcome, locked: Outcome) -> list[str]:
    """Return what is not as it should be; nothing, if all is well."""
    wrong = _wrong_shocks if locked.shocks else _wrong_faults
    return [*_nothing_shown(unlocked), *_wrong_totals(locked), *_untold(locked), *wrong(locked)]


def _lines(unlocked: Outcome, locked: Outcome) -> Iterator[str]:
    yield f"{'':24}{'bookings':>19}{'cents':>28}"
    yield f"{'':24}{'expected':>10}{'actual':>9}{'lost':>9}{'expected':>12}{'actual':>12}"
    yield "without the lock"
    yield from map(_row, unlocked.accounts)
    yield "with the lock"
    yield from map(_row, locked.accounts)
    if any(fault.what == "killed" for fault in locked.faults):
        yield "  (the killed worker had written the file and not yet the key: a lock keeps others"
        yield "  out, it does not make two writes one; each book has exactly what was written)"
    yield ""
    yield from _timing(locked)
    for fault in locked.faults:
        yield from _story(fault)
    for shock in locked.shocks:
        yield str(shock)
    yield f"losses noticed: {locked.losses}"
    if locked.shocks:
        killed = sum("killed" in shock.what for shock in locked.shocks)
        yield f"masters killed: {killed}"
        yield f"slots moved: {len(locked.shocks) - killed}"
        yield f"losses nobody was told of: {locked.untold}"
        yield f"bookings that failed, told as errors: {locked.failed}"
    else:
        for what in ("killed", "stopped"):
            yield f"workers {what}: {sum(fault.what == what for fault in locked.faults)}"
    if in_doubt := sum(account.in_doubt for account in locked.accounts):
        yield f"bookings in doubt, settled by the books themselves: {in_doubt}"
    if locked.exposed:
        yield f"writes during which the lease ended: {locked.exposed}"


def _row(account: Account) -> str:
    expected, actual = account.expected, account.actual
    return (
        f"  {_BOOKS[account.store]:<22}{expected.bookings:>10}{actual.bookings:>9}"
        f"{account.lost:>9}{expected.cents:>12}{actual.cents:>12}"
    )


def _timing(locked: Outcome) -> Iterator[str]:
    grants = locked.grants
    between = sum(before[2] != after[2] for before, after in pairwise(grants))
    yield (
        f"hand-offs: {len(grants)} ({len(grants) / locked.seconds:.0f}/s, faults included), "
        f"{between} of them between processes"
    )
    usual: list[float] = []
    delayed: list[float] = []
    for granted_at, waited, _ in grants:
        struck = any(fault.delayed(granted_at, waited) for fault in locked.faults)
        (delayed if struck else usual).append(waited * 1000)
    if usual:
        yield f"wait: p50 {_quantile(usual, 0.5):.1f} ms, p99 {_quantile(usual, 0.99):.1f} ms"
    if delayed:
        yield (
            f"wait while a struck worker had the lock: {len(delayed)} tasks, "
            f"longest {max(delayed):.0f} ms (the stopped worker's own tasks included)"
        )


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _story(fault: Fault) -> Iterator[str]:
    took = "nobody else got the lock"
    if fault.recovered_after is not None:
        took = f"others had the lock after {fault.recovered_after:.2f} s (lease {LEASE_TIME:g} s)"
    yield f"{fault.worker}: {fault.what} while holding; {took}"
    if fault.what == "stopped":
        told = "noticed nothing"
        if fault.noticed_after is not None:
            told = f"noticed its loss {fault.noticed_after * 1000:.0f} ms later, and did not write"
        yield f"  woken after {fault.asleep:.2f} s, it {told}"


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
            f"{locked.untold} times somebody had the lock while another worker had it and was not"
            " told of its loss"
        )


def _wrong_shocks(locked: Outcome) -> Iterator[str]:
    for shock in locked.shocks:
        if shock.workers_took is None:
            yield f"nobody got the lock after: {shock}"


def _wrong_faults(locked: Outcome) -> Iterator[str]:
    for fault in locked.faults:
        if not fault.was_holder:
            yield f"{fault.worker} did not hold the lock when it was {fault.what}"
        if not fault.recovered_in_time:
            yield (
                f"the lock of the {fault.what} {fault.worker} was not free for others within "
                f"its lease of {LEASE_TIME:g} s and {MARGIN:g} s more"
            )
        if fault.what == "stopped" and fault.noticed_after is None:
            yield f"{fault.worker} slept past its lease and was not told of the loss"
    if {fault.what for fault in locked.faults} != {"killed", "stopped"}:
        yield "not every fault was tried"
