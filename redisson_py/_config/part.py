"""The top of a configuration file or a section in it, and how its values are read.

No error contains a value: it may be a password.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches

from redisson_py._config.file import CLASS, Table

__all__ = ["Part"]

_ON, _OFF = ("true", "yes", "on"), ("false", "no", "off")


@dataclass(frozen=True)
class Part:
    """The top of a file or a section in it, and how its values are read."""

    file: str
    where: str
    values: Table

    def error(self, name: str, text: str) -> ValueError:
        place = f"{self.where}.{name}" if self.where and name else self.where or name
        return ValueError(f"{self.file}: {place}{': ' if place else ''}{text}")

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def table(self, name: str) -> Part | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, "must contain names and values")
        return Part(self.file, f"{self.where}.{name}" if self.where else name, value)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.error(name, "must be text (quoted, in formats with quotes)")
        return value or None

    def texts(self, name: str) -> list[str]:
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.error(name, "must be a list of texts")
        return value

    def whole(self, name: str, least: int, most: int) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
            # Java's YAML parser reads 010 as 8.
            value = None if value[0] == "0" < value[1:] else int(value)
        if type(value) is not int or not least <= value <= most:
            raise self.error(name, f"must be a whole number from {least} to {most}")
        return value

    def switch(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return value
        text = value.lower() if isinstance(value, str) else ""
        if text not in _ON + _OFF:
            raise self.error(name, "must be true or false")
        return text in _ON

    def one_of(self, name: str, known: Collection[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in known:
            raise self.error(name, f"must be one of {', '.join(known)}")
        return value

    def java_class(self, name: str) -> str | None:
        """Return the class of a value, without the package if that is Redisson's."""
        value = self.values.get(name)
        if value is None:
            return None
        found = value.get(CLASS) if isinstance(value, dict) else value
        if not isinstance(found, str):
            raise self.error(name, "must name a class")
        package, _, last = found.rpartition(".")
        return last if f"{package}.".startswith("org.redisson.") else found

    def check_names(self, taken: Collection[str], ignored: Collection[str]) -> list[str]:
        """Return the names in it that have no effect.

        Raises:
            ValueError: There is no such name.
        """
        for name in self.values:
            if name not in taken and name not in ignored:
                known = sorted({*taken, *ignored})
                close = get_close_matches(name, known, n=1)
                meant = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
                raise self.error(name, f"Redisson has no such setting here; {meant}")
        return [name for name in self.values if name in ignored and self.has(name)]
