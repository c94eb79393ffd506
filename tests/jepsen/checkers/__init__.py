"""The checkers: pure functions from a history to a verdict."""

from __future__ import annotations

from tests.jepsen.checkers.mutual_exclusion import mutual_exclusion
from tests.jepsen.checkers.verdict import Checker

#: Every checker by its name.
CHECKERS: dict[str, Checker] = {"mutual exclusion": mutual_exclusion}
