"""The renewals that a server refuses: when to ask again, and what to log.

A refusal that is about a key is one of a hold, and the batch is halved to find it. Any other is one
refusal, of the server or of the user, however many leases it concerns: it is logged once. Both are
logged again only when the words change, or after a renewal in between.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redisson_py._answers import RefusedError

if TYPE_CHECKING:
    from redisson_py._engine.hold import Hold

log = logging.getLogger("redisson_py")

#: Holds refused because of a key that are asked for one by one. More of them are asked for in
#: batches, which are not halved again: otherwise their number would flood the server.
_MOST_SINGLE_ASKS = 100


@dataclass(slots=True)
class _Refusal:
    """The last refusal of one hold, and how many there were."""

    text: str
    of_key: bool
    times: int = 0


class RefusedRenewals:
    """The holds that the server refuses to renew.

    Attributes:
        holds: The last refusal of each. Mostly there are none, and then nothing need be asked.
    """

    def __init__(self) -> None:
        self.holds: dict[Hold, _Refusal] = {}
        #: The refusals of all holds that were logged.
        self._said: set[str] = set()
        #: Refusals of keys that will be logged: an error with each text, and its new holds.
        self._unsaid: dict[str, tuple[str, list[Hold]]] = {}

    def batch(self, hold: Hold, most: int) -> int:
        """Return how many holds like this one may be asked for together."""
        refusal = self.holds.get(hold)
        alone = refusal is not None and refusal.of_key and len(self.holds) <= _MOST_SINGLE_ASKS
        return 1 if alone else most

    def is_of_one(self, holds: Sequence[Hold], error: RefusedError) -> bool:
        """Return whether a part of a refused batch may be renewed."""
        text = str(error)
        return (
            len(holds) > 1
            and error.concerns_key
            and any((known := self.holds.get(hold)) is None or known.text != text for hold in holds)
        )

    def add(self, holds: Sequence[Hold], error: RefusedError, why: str) -> int:
        """Note a refusal; return how often the same was refused before.

        Args:
            holds: The holds of the refused batch, which is not halved.
            error: The refusal.
            why: How the log says it.
        """
        text, new = str(error), []
        for hold in holds:
            refusal = self.holds.get(hold)
            if refusal is None or refusal.text != text:
                refusal = self.holds[hold] = _Refusal(text, error.concerns_key)
                new.append(hold)
            else:
                refusal.times += 1
        if error.concerns_key:
            self._unsaid.setdefault(text, (why, []))[1].extend(new)
        elif text not in self._said:
            self._said.add(text)
            _say(holds, why)
        return self.holds[holds[0]].times

    def renewed(self, hold: Hold) -> None:
        """Note that the server has renewed a hold: what it refused before is news from now on."""
        refusal = self.holds.pop(hold, None)
        if refusal is not None:
            self._said.discard(refusal.text)

    def forget(self, hold: Hold) -> None:
        """Note that a hold is over."""
        self.holds.pop(hold, None)
        if not self.holds:
            self._said.clear()

    def tell(self) -> None:
        """Log the refusals of keys since the last call."""
        unsaid, self._unsaid = self._unsaid, {}
        for why, holds in unsaid.values():
            if holds:
                _say(holds, why)


def _say(holds: Sequence[Hold], why: str) -> None:
    log.warning(
        "the server refused to renew %d leases, among them %s %r; trying again: %s",
        len(holds),
        holds[0].ownership.kind,
        holds[0].ownership.name,
        why,
    )
