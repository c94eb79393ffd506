"""What the row of an election has in a database: who leads, a number, and what it says.

A row keeps what its last leader said, and other holds do not touch it: it counts only while the
owner before it holds the row. Owners are never used again. Of one owner the greater of two is the
later one, so a statement that keeps the greater undoes nothing newer when it comes late.
"""

from __future__ import annotations

from typing import Final

_NUMBER_BYTES: Final = 8


def published(owner: str, number: int, value: bytes) -> bytes:
    """Return what a leader says, with a number that grows, as the row has it."""
    return owner.encode() + b"\0" + number.to_bytes(_NUMBER_BYTES, "big") + value


def said_by(owner: str, found: bytes | None) -> bytes | None:
    """Return what this owner says, from what the row has; None: it has published nothing."""
    mark = owner.encode() + b"\0"
    if found is None or not found.startswith(mark):
        return None
    return found[len(mark) + _NUMBER_BYTES :]
