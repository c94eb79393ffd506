"""Why a server does not answer, as far as its store knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from redisson_py.errors import ConnectionLostError


@final
class LastFailure:
    """Remembers what went wrong last, until the server has answered.

    A caller that gives up learns it, also while its store still tries.

    Args:
        server: The server and its address, for people, without credentials.

    Attributes:
        why: What went wrong last; empty if nothing did.
        refused: That was the server's "not now".
        away: Called when no connection could be made, in the task of the call that needed one, or
            in none: with the reason, which is empty if it only took too long, and with `done`.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self.why: str = ""
        self.refused: bool = False
        self.away: Callable[[str, bool | None], None] = lambda why, done: None

    def note(
        self,
        error: BaseException | None,
        why: str = "",
        *,
        away: bool = False,
        done: bool | None = None,
        refused: bool = False,
    ) -> None:
        """Remember why an attempt failed.

        Args:
            error: What was raised. That nothing came in time is known anyway, and what is known
                already says more.
            why: What to say of it; its type and its text if this is empty.
                One line of it is kept.
            away: No connection could be made. Calls that want no second attempt get the error.
            done: Whether an earlier copy of the request may be carried out; None: not known.
            refused: The server answered, and said no for now.
        """
        late = error is None or isinstance(error, TimeoutError)
        if not late:
            text = why or f"{type(error).__name__}: {error}".removesuffix(": ")
            self.why = text.partition("\n")[0]
            self.refused = refused
        if away:
            self.away("" if late else self.why, done)

    def clear(self) -> None:
        """Forget it: the server has answered."""
        self.why = ""
        self.refused = False

    def lost_answer(self) -> ConnectionLostError:
        """Return the error of a caller that is told "busy", after a copy that may still arrive."""
        text = (
            f"the answer of {self._server} to an acquire request was lost, and the name is busy now"
        )
        return ConnectionLostError(text, maybe_held=True)

    def no_answer(self, *, maybe_held: bool) -> ConnectionLostError:
        """Return the error of a caller that has no answer in time, or none but "not now"."""
        why = f": {self.why}" if self.why else ""
        text = f"no answer from {self._server} in time{why}"
        if self.refused:
            text = f"{self._server} refused until the time was up{why}"
        return ConnectionLostError(text, maybe_held=maybe_held)
