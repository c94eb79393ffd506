"""Renews holds: all that are due in one statement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from redisson_py._stores.contract import Renewal
from redisson_py._stores.postgres import sql
from redisson_py._stores.postgres.connections import Answer
from redisson_py._stores.postgres.table import id_of

#: The name, the owner and the token of a hold.
_Hold = tuple[str, str, int]


class _Kept(NamedTuple):
    """Until when a hold is kept: by our clock, and by the server's in microseconds."""

    until: float
    end: int


async def renew(
    fetch: Callable[..., Awaitable[Answer]],
    ring: Callable[[str], Awaitable[None]],
    batch: Sequence[Renewal],
    deadline: float,
) -> Sequence[float | None]:
    """Return until when each hold is kept; `ring` for those that end sooner than before."""
    ask = partial(_ask, fetch, deadline)
    looks = [each for each in batch if each.lease == 0]
    renewals = [each for each in batch if each.lease > 0 and not each.exact]
    exact = [each for each in batch if each.lease > 0 and each.exact]
    kept = await ask(sql.RENEW, renewals, {})
    kept |= await ask(sql.CONFIRM, looks, {})
    while exact:
        seen = await ask(sql.CONFIRM, exact, {})
        exact = [each for each in exact if _hold_of(each) in seen]
        # One is not set if another request of its owner came in between: once more.
        kept |= (changed := await ask(sql.RENEW, exact, seen))
        for hold, now_kept in changed.items():
            if now_kept.end < seen[hold].end:
                await ring(hold[0])
        exact = [each for each in exact if _hold_of(each) not in changed]
    found = [kept.get(_hold_of(each)) for each in batch]
    return [None if each is None else each.until for each in found]


async def _ask(
    fetch: Callable[..., Awaitable[Answer]],
    deadline: float,
    statement: str,
    part: Sequence[Renewal],
    seen: Mapping[_Hold, _Kept],
) -> dict[_Hold, _Kept]:
    if not part:
        return {}
    names = {id_of(each.name): each.name for each in part}
    ends = [seen.get(_hold_of(each)) for each in part]
    arguments: list[list[str | None]] = [
        [id_of(each.name).hex() for each in part],
        [each.owner for each in part],
        [str(each.token) for each in part],
        [str(float(each.lease)) for each in part],
        [None if each is None else str(each.end) for each in ends],
    ]
    answer = await fetch(statement, arguments, deadline, urgent=True)
    return {
        (names[row["id"]], row["owner"], row["token"]): _Kept(
            answer.sent + row["remaining"], row["seen"]
        )
        for row in answer.value
    }


def _hold_of(renewal: Renewal) -> _Hold:
    return renewal.name, renewal.owner, renewal.token
