"""A fenced lock whose holder gives it to a task of any process, which goes on with its token."""

from __future__ import annotations

from redisson_py import Lease
from tests.jepsen.working import Use, Worker
from tests.jepsen.workloads.locks import last_of_lock, lock_of
from tests.jepsen.workloads.workload import Workload

#: How many tasks find the token of a hold that was handed over: one of them adopts it.
_FINDERS = 2


class _Visit(Use):
    """A use of a lock, which may end by giving it away.

    The record of a release begins before anything is sent, and has no known end: the hold stays in
    the server.
    """

    _given = False

    def releasing(self) -> None:
        if not self._given:
            super().releasing()

    def given(self) -> None:
        """Record that it was handed over."""
        self._given = True
        self._end("info", err="handed over")


async def _visit(worker: Worker) -> None:
    """Go on with what somebody has given away, or acquire it; then maybe give it away."""
    obj = worker.chance.choice(worker.spec.objects)
    found = await worker.resource.tell("take", f"{obj}-given")
    if found:
        giver, section, token = found.split(",")
        # To the resource it is the section of whoever acquired it.
        with _Visit(worker, (obj,), {"value": giver}) as use:
            lease = await worker.client.adopt(token, name=obj)
            async with lease, use.held(lease, value=giver):
                use.check(lease)
                value = int(await worker.resource.tell("look", obj, section))
                use.check(lease)
                await worker.resource.tell("write", obj, section, lease.token or 0, value + 1)
                await _maybe_give(worker, use, lease, section)
        return
    with _Visit(worker, (obj,), {}) as use:
        await use.ask()
        async with lock_of(worker, obj).hold(timeout=worker.timeout()) as lease, use.held(lease):
            await use.add_one(lease)
            await _maybe_give(worker, use, lease, use.rid)


async def _maybe_give(worker: Worker, use: _Visit, lease: Lease, section: str) -> None:
    if worker.chance.random() < 0.4:
        return
    use.releasing()
    token = await lease.hand_over()
    use.given()
    await worker.resource.tell(
        "post", f"{use.obj}-given", *[f"{lease.owner},{section},{token}"] * _FINDERS
    )


ADOPTED = Workload(
    "adopted",
    "W22: a number under a fenced lock that is handed over from process to process, with its token",
    _visit,
    checkers=(
        *("no deadlock", "no unexpected error", "leaks", "mutual exclusion", "fencing"),
        *("adoption", "referee", "loss detection"),
    ),
    objects=("fenced-1", "fenced-2"),
    threads=False,
    last=last_of_lock,
)
