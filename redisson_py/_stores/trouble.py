"""Why a server does not answer, as far as its store knows."""

from __future__ import annotations

from typing import final

from redisson_py.errors import ConnectionLostError


@final
class Trouble:
    """Remembers what went wrong last, until the server has answered.

    A caller that gives up is told, also while its store still tries.

    Args:
        server: The server and its address, for people, without credentials.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._why = ""

    def note(self, error: BaseException | None, why: str = "") -> None:
        """Remember why an attempt failed.

        Args:
            error: What was raised. That nothing came in time is known anyway, and what is known
                already says more.
            why: What to say of it; its type and its text if this is empty.
                One line of it is kept.
        """
        if error is not None and not isinstance(error, TimeoutError):
            text = why or f"{type(error).__name__}: {error}".removesuffix(": ")
            self._why = text.partition("\n")[0]

    def over(self) -> None:
        """Forget it: the server has answered."""
        self._why = ""

    def no_answer(self, *, maybe_held: bool) -> ConnectionLostError:
        """Return the error of a caller that has no answer in time."""
        why = f": {self._why}" if self._why else ""
        text = f"no answer from {self._server} in time{why}"
        return ConnectionLostError(text, maybe_held=maybe_held)
