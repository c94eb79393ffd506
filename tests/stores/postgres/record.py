"""What PostgreSQL itself recorded of read-write locks and semaphores, and a judge of it.

A trigger keeps each version of each row. The judge knows the rules and nothing of our SQL: who may
be granted something, beside whom, and before whom.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

_RECORD = """
CREATE TABLE recorded (
    n bigserial PRIMARY KEY, at int8, kind text, name text, total int8,
    holds_before jsonb, waits_before jsonb, holds jsonb, waits jsonb);
CREATE FUNCTION record() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO recorded (at, kind, name, total, holds_before, waits_before, holds, waits)
    VALUES (extract(epoch FROM statement_timestamp()) * 1000000, NEW.kind, NEW.name, NEW.total,
        OLD.holds, OLD.waits, NEW.holds, NEW.waits);
    RETURN NULL;
END $$;
CREATE TRIGGER record AFTER UPDATE ON redisson_py_shared FOR EACH ROW EXECUTE FUNCTION record()"""

Entries = dict[str, dict[str, Any]]


@dataclass
class Judgement:
    """What the record shows.

    Attributes:
        granted: How often each mode was granted: r, w, p.
        waited: How often one of each mode began to wait.
        passed_over: How often somebody was granted what one before it wants, who was called and had
            not asked in time.
    """

    granted: Counter[str]
    waited: Counter[str]
    passed_over: int


async def begin(connection: Any) -> None:
    """Record from now on; the table must be there."""
    await connection.execute(_RECORD)


async def judged(connection: Any, name: str) -> Judgement:
    """Return what the record of a name shows; fail if it breaks a rule."""
    rows = await connection.fetch("SELECT * FROM recorded WHERE name = $1 ORDER BY n", name)
    found = Judgement(Counter(), Counter(), 0)
    for row in rows:
        _judge(row, found)
    return found


def _judge(row: Any, found: Judgement) -> None:
    now, total = row["at"], row["total"]
    before, waited, holds, waits = (
        json.loads(row[each]) for each in ("holds_before", "waits_before", "holds", "waits")
    )
    live = {owner: hold for owner, hold in before.items() if hold["e"] > now}
    _check_holders(holds, total)
    for key, wait in waits.items():
        found.waited[wait["m"]] += key not in waited
    for owner, hold in holds.items():
        if owner in before and before[owner]["t"] == hold["t"]:
            continue
        found.granted[hold["m"]] += 1
        if hold["w"] is not None and hold["w"] in live:
            # It reads while it writes.
            continue
        # Who did not wait came when its statement did, which may have waited for the row.
        position = min(
            (key for key in waited if key.split(" ")[2] == owner), default=str(hold["t"])
        )
        ahead = {key: wait for key, wait in waited.items() if key < position and wait["e"] > now}
        counting = [wait for wait in ahead.values() if wait["c"] is None or wait["c"] > now]
        assert _may_go_on(hold, counting, live, total), f"{owner} overtook in {dict(row)}"
        found.passed_over += len(counting) < len(ahead)


def _check_holders(holds: Entries, total: int | None) -> None:
    """Fail if these must not be together."""
    modes = Counter(hold["m"] for hold in holds.values())
    assert modes["w"] <= 1, holds
    for writer in [owner for owner, hold in holds.items() if hold["m"] == "w"]:
        assert all(hold["w"] == writer for hold in holds.values() if hold["m"] == "r"), holds
    assert sum(hold["n"] for hold in holds.values() if hold["m"] == "p") <= (total or 0), holds


def _may_go_on(hold: Any, ahead: list[Any], live: Entries, total: int) -> bool:
    """Return whether a hold may be granted, with who is ahead and who holds."""
    if hold["m"] == "r":
        return not any(each["m"] == "w" for each in [*ahead, *live.values()])
    if hold["m"] == "w":
        return not ahead and not live
    return bool(hold["n"] + sum(each["n"] for each in [*ahead, *live.values()]) <= total)
