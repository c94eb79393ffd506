"""Whether what was recorded of a run is all of it, and whether anything happened in it.

Checkers say what is wrong with what they see. What they do not see, because a file is lost or
nobody was granted anything, is trouble of the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.jepsen.checkers.probes import probes
from tests.jepsen.history import History
from tests.jepsen.plan import Plan
from tests.jepsen.workloads import WORKLOADS

#: What workers want: without one that succeeded, no rule was applied to anything that matters.
_WANTED = ("acquire", "arrive", "await")


def missing(plan: Plan, history: History) -> Iterator[str]:
    """Yield what is not in the history of a run and should be."""
    began = {op.process for op in history.of("began")}
    ended = {op.process for op in history.of("left") if op.obj == "tasks"}
    for number in range(WORKLOADS[plan.workload].processes):
        name = f"w{number}"
        if name not in began:
            yield f"there is no history of {name}"
        elif name not in ended:
            yield f"the history of {name} has no end"
    if not any(op.out == "ok" for op in history.of(*_WANTED)):
        yield "no worker was granted anything"
    # The servers are healthy by then: whoever looks must see something.
    unseen = {op.rid for op in history.of("probe") if op.handle == "quiet" and op.out != "ok"}
    if not any(probes(history, "keys", quiet=True)):
        unseen.add("keys")
    if unseen:
        yield f"nobody saw what was left on a server at the end: {', '.join(sorted(unseen))}"


def idle(plan: Plan, history: History) -> list[str]:
    """Return the nemeses of a plan that did not strike, or only tried to."""
    struck = {op.rid for op in history.of("nemesis") if not op.err}
    return [name for name in plan.nemeses if name not in struck]
