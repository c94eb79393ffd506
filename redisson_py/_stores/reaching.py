"""Whether a store can be reached: outages are reported, and calls without patience fail at once."""

from __future__ import annotations

import math
from weakref import WeakKeyDictionary

from redisson_py._loop import Task, current_task, task_or_none
from redisson_py._outage import Outages
from redisson_py._stores.contract import Store
from redisson_py._stores.requests import StoreCall
from redisson_py._time import now
from redisson_py.errors import BackendError

#: The part of a silence that counts as one: timers and clocks differ.
_SILENCE_SHARE = 0.9


class Reaching:
    """What the calls to a store tell of its server.

    An outage begins with an attempt to connect that fails, or with a call that waited in vain for
    as long as a silence: if no other call was answered meanwhile. It is over with the next answer.

    Args:
        store: The store, whose `LastFailure` tells of attempts that failed.
        outages: Where to report outages; None: nowhere.
        silence: Seconds without an answer that are an outage.
    """

    def __init__(self, store: Store, outages: Outages | None, silence: float) -> None:
        self._last_failure = store.last_failure
        self._outages = outages or Outages(store.where, server=store.title)
        self._silence = silence
        #: The call that each task makes, or made last, and since when; None: it starts the store.
        self._calls: WeakKeyDictionary[Task, tuple[StoreCall | None, float]] = WeakKeyDictionary()
        self._heard_at = -math.inf
        store.last_failure.away = self._away

    def begin(self, call: StoreCall | None) -> None:
        """Note that the current task makes a call, or starts the store."""
        self._calls[current_task()] = call, now()

    def heard(self) -> None:
        """Note that the store has answered."""
        self._heard_at = now()
        self._outages.ended()

    def unheard(self) -> None:
        """Note that the call of the current task had no answer."""
        _, began = self._calls[current_task()]
        if began > self._heard_at and now() - began >= self._silence * _SILENCE_SHARE:
            if self._last_failure.refused:
                self._outages.serves_nothing(self._last_failure.why)
            else:
                self._outages.broke(self._last_failure.why or "no answer in time")

    def _away(self, why: str, done: bool | None) -> None:
        """Fail the calls that want no second attempt to connect; see `LastFailure.away`."""
        task = task_or_none()
        # In a callback it is about the one session of all calls.
        own, began = (None, now()) if task is None else self._calls.get(task, (None, -math.inf))
        if why and began > self._heard_at:
            self._outages.failed(BackendError(why))
        for call, since in [*self._calls.values()]:
            # Others may wait for what this call needs; but where one was answered, they may be too.
            if call is None or not call.fails_fast or not (call is own or since > self._heard_at):
                continue
            known = done is not None and call is own
            maybe_held = bool(done) if known else call.sends > 0
            call.give_up(self._last_failure.no_answer(maybe_held=maybe_held))
