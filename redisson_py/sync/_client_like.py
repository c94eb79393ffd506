"""What a client here is: two clients of the async library, one of which is never used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from redisson_py import Listeners, Locks
from redisson_py.sync import _loop_thread
from redisson_py.sync._calling import Call
from redisson_py.sync._losses import LossListener
from redisson_py.sync._wrapping import Of, Wrapper, shape_of


class ClientLike(Wrapper):
    """Base of the clients: how they are made."""

    def _build(
        self,
        construct: Callable[..., Locks],
        target: object,
        given: Mapping[str, Any],
    ) -> None:
        """Make both clients of the same arguments."""
        options = dict(given)
        on_lost = options.pop("on_lost", "raise")
        if on_lost != "raise" and not callable(on_lost):
            raise ValueError(
                f"on_lost must be 'raise' or a function, not {on_lost!r}: nothing can cancel the"
                " body of a block in a thread"
            )
        # Also what checks the options.
        unused = construct(target, **options, on_lost="raise")
        if callable(on_lost):
            own = [] if options.get("listener") is None else [options["listener"]]
            options["listener"] = Listeners(LossListener(on_lost), *own)
        working = construct(target, **options, on_lost="raise")
        _loop_thread.close_at_exit(working)

        def make(of: Of) -> Locks:
            return unused if of is shape_of else working

        Wrapper.__init__(self, make)
        # Needs no event loop to be made, and knows its id.
        self._working = working

    def __repr__(self) -> str:
        return repr(self._working)

    def _close(self) -> None:
        # Clients are closed when the interpreter exits. Not by the thread's actor: a signal handler
        # may close the client while the thread waits for a lock, which only that ends.
        if not _loop_thread.is_exiting():
            Call(lambda: self._working.aclose()).outcome(by_actor=False)
