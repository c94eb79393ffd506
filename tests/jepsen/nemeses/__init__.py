"""What strikes the workers, the servers and the network between them: one module a kind."""

from __future__ import annotations

from tests.jepsen.nemeses import clocks, commands, links, network, processes, roles
from tests.jepsen.nemeses.nemesis import Nemesis

#: Every nemesis by its name.
NEMESES: dict[str, Nemesis] = {
    each.name: each
    for module in (processes, commands, links, network, clocks, roles)
    for each in vars(module).values()
    if isinstance(each, Nemesis)
}
