"""What strikes the workers, the servers and the network between them: one module a kind."""

from __future__ import annotations

from tests.jepsen.nemeses.nemesis import Nemesis
from tests.jepsen.nemeses.workers import KILL, PAUSE

#: Every nemesis by its name.
NEMESES: dict[str, Nemesis] = {each.name: each for each in (KILL, PAUSE)}
