"""Seeds that have shown something: they are run first, for ever."""

from __future__ import annotations

#: What is simulated, the seed, and what it showed.
KEPT: list[tuple[str, int, str]] = []
