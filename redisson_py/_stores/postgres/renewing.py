"""Renews holds: all that are due in one statement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from redisson_py._stores.contract import Kind, Renewal
from redisson_py._stores.postgres import sql
from redisson_py._stores.postgres.connections import Answer
from redisson_py._stores.postgres.table import id_of

#: The name, the owner, the token and the kind of a hold.
_Hold = tuple[str, str, int, Kind]


class Statements(NamedTuple):
    """What renews the holds of one table, what looks at them, and the keys of its rows."""

    renew: str
    confirm: str
    id_of: Callable[[str, Kind], bytes]


def _lock_id_of(name: str, _kind: Kind) -> bytes:
    return id_of(name)


LOCK_STATEMENTS: Final = Statements(sql.RENEW, sql.CONFIRM, _lock_id_of)


class _Kept(NamedTuple):
    """Until when a hold is kept: by our clock, and by the server's in microseconds."""

    until: float
    end: int


async def renew(
    fetch: Callable[..., Awaitable[Answer]],
    ring: Callable[[str, Kind], Awaitable[None]],
    batch: Sequence[Renewal],
    deadline: float,
    statements: Statements = LOCK_STATEMENTS,
) -> Sequence[float | None]:
    """Return until when each hold is kept; `ring` for those that end sooner than before."""
    ask = partial(_ask, fetch, statements.id_of, deadline)
    looks = [each for each in batch if each.lease == 0]
    renewals = [each for each in batch if each.lease > 0 and not each.exact]
    exact = [each for each in batch if each.lease > 0 and each.exact]
    kept = await ask(statements.renew, renewals, {})
    kept |= await ask(statements.confirm, looks, {})
    while exact:
        seen = await ask(statements.confirm, exact, {})
        exact = [each for each in exact if _hold_of(each) in seen]
        # One is not set if another request of its owner came in between: once more.
        kept |= (changed := await ask(statements.renew, exact, seen))
        for hold, now_kept in changed.items():
            if now_kept.end < seen[hold].end:
                await ring(hold[0], hold[3])
        exact = [each for each in exact if _hold_of(each) not in changed]
    found = [kept.get(_hold_of(each)) for each in batch]
    return [None if each is None else each.until for each in found]


async def _ask(
    fetch: Callable[..., Awaitable[Answer]],
    id_of: Callable[[str, Kind], bytes],
    deadline: float,
    statement: str,
    part: Sequence[Renewal],
    seen: Mapping[_Hold, _Kept],
) -> dict[_Hold, _Kept]:
    if not part:
        return {}
    ids = [id_of(each.name, each.kind) for each in part]
    found = {
        (key, each.owner, each.token): _hold_of(each) for key, each in zip(ids, part, strict=True)
    }
    ends = [seen.get(_hold_of(each)) for each in part]
    arguments: list[list[str | None]] = [
        [key.hex() for key in ids],
        [each.owner for each in part],
        [str(each.token) for each in part],
        [str(float(each.lease)) for each in part],
        [None if each is None else str(each.end) for each in ends],
    ]
    answer = await fetch(statement, arguments, deadline, urgent=True)
    return {
        found[row["id"], row["owner"], row["token"]]: _Kept(
            answer.sent + row["remaining"], row["seen"]
        )
        for row in answer.value
    }


def _hold_of(renewal: Renewal) -> _Hold:
    return renewal.name, renewal.owner, renewal.token, renewal.kind
