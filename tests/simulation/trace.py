"""What happened in a simulation, in order: the same for the same seed, byte for byte."""

from __future__ import annotations

import functools
import hashlib

from redisson_py._redis.scripts.source import load_all

#: The longest argument of a command that is shown as it is.
_LONG = 40


class Trace:
    """Notes what happens; the text is made only when somebody asks for it.

    Attributes:
        names: The scripts by their sha, so that a trace says which ran.
    """

    def __init__(self, names: dict[bytes, str] | None = None) -> None:
        self._rows: list[tuple[float, tuple[object, ...]]] = []
        self.names = names or {}

    def add(self, moment: float, *words: object) -> None:
        """Note something; words that can change are given as text."""
        self._rows.append((moment, (*words,)))

    def add_command(
        self, moment: float, source: object, command: tuple[bytes, ...], verdict: str
    ) -> None:
        """Note a command, and what becomes of it."""
        self._rows.append((moment, (source, verdict, command)))

    def rows(self) -> list[str]:
        """Return what happened, a line each."""
        return [f"{moment:.6f} " + " ".join(map(self._word, words)) for moment, words in self._rows]

    def digest(self) -> str:
        """Return a digest of all that happened."""
        return hashlib.sha256("\n".join(self.rows()).encode()).hexdigest()

    def _word(self, word: object) -> str:
        if not isinstance(word, tuple):
            return str(word)
        if word[0].upper() in (b"EVALSHA", b"EVAL") and len(word) > 1:
            name = self.names.get(word[1], "a script")
            return " ".join((name, *map(_shown, word[3:])))
        return " ".join(map(_shown, word))


def _shown(argument: bytes) -> str:
    if len(argument) > _LONG and not argument.isascii():
        return f"<{len(argument)} bytes>"
    text = argument.decode("latin-1") if argument.isascii() else argument.hex()
    return text if len(text) <= 2 * _LONG else f"{text[:_LONG]}..."


@functools.cache
def script_names() -> dict[bytes, str]:
    """Return the names of all scripts by their sha."""
    return {script.sha.encode(): script.name for script in load_all()}
