"""Whether a store can be reached: outages are reported, and calls without patience fail at once."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from redisson_py._loop import Task, current_task, task_or_none
from redisson_py._stores.contract import Store
from redisson_py._stores.requests import StoreCall
from redisson_py._stream.outage import Outages
from redisson_py.errors import BackendError

#: The part of a silence that counts as one: timers and clocks differ.
_NEARLY = 0.9


class Reaching:
    """What the calls to a store tell of its server.

    An outage begins with an attempt to connect that fails, or with a call that waited in vain for
    as long as a silence. It is over with the next answer.

    Args:
        store: The store, whose `Trouble` tells of attempts that failed.
        outages: Where to report outages; None: nowhere.
        silence: Seconds without an answer that are an outage.
    """

    def __init__(self, store: Store, outages: Outages | None, silence: float) -> None:
        self._trouble = store.trouble
        self._outages = outages or Outages(store.where, server=store.title)
        self._silence = silence
        #: The call that each task makes, or made last.
        self._calls: WeakKeyDictionary[Task, StoreCall] = WeakKeyDictionary()
        store.trouble.away = self._away

    def begin(self, call: StoreCall) -> None:
        """Note that the current task makes a call."""
        self._calls[current_task()] = call

    def heard(self) -> None:
        """Note that the store has answered."""
        self._outages.over()

    def unheard(self, waited: float) -> None:
        """Note that a call had no answer, for which it waited so many seconds."""
        if waited >= self._silence * _NEARLY:
            self._outages.broke(self._trouble.why or "no answer in time")

    def _away(self, why: str, done: bool | None) -> None:
        """Fail the calls that want no second attempt to connect; see `Trouble.away`."""
        if why:
            self._outages.failed(BackendError(why))
        task = task_or_none()
        own = None if task is None else self._calls.get(task)
        for call in [*self._calls.values()] if own is None else [own]:
            if call.fails_fast:
                maybe_held = call.sends > 0 if done is None else done
                call.give_up(self._trouble.no_answer(maybe_held=maybe_held))
