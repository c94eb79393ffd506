"""What a sabotage is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One sabotage.

    Attributes:
        name: What is done.
        promise: What does not hold any more.
        file: Where it is done.
        old: The text that is replaced; it occurs once in the file.
        new: What it is replaced by.
        tests: What is run: files, or single tests of long files.
    """

    name: str
    promise: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Return the text of the file with the mutant in it.

        Raises:
            ValueError: It is not plain where the mutant belongs.
        """
        if (times := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.old!r} occurs {times} times in {self.file}")
        return text.replace(self.old, self.new)
