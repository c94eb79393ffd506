"""Whatever owners do in whatever order, and however late, the scripts keep to a plain model.

Owners of several clients read, write, re-enter, downgrade, renew, release and die; any question
may arrive twice or late. After each step the server's keys are compared with the model's, and
what owners were promised with both: many readers or one writer, nobody loses the lock before
its lease ends, and the lock lives no longer than somebody needs it.

Time passes only by the steps: all expiries are moved nearer. Leases are whole units that are
much longer than a run takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import redis as redis_py
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.lua.read_write_model import Model, Server, Step, hold_key
from tests.support.scripts.calls import A, B, C
from tests.support.scripts.read_write import Side


class ReadersAndWriters(RuleBasedStateMachine):
    """Clients that keep to their side of the protocol, over a network that may not.

    Attributes:
        believed: What owners were told: by mark, how many holds, and until when at least.
        sent: What may arrive once more.
    """

    server: Server

    def __init__(self) -> None:
        super().__init__()
        self.server.redis.flushdb()
        self.model = Model()
        self.believed: dict[str, tuple[int, int]] = {}
        self.sent: list[Step] = []
        self.seen = self.server.state()

    def ask(self, step: Step) -> str:
        """Send one question; the answer must be the model's."""
        reply = self.server.take(step)
        assert reply == self.model.take(step)
        self.seen = self.server.state()
        return reply

    owners = st.sampled_from([A, B, C])
    sides: st.SearchStrategy[Side] = st.sampled_from(["read", "write"])
    leases = st.integers(1, 4)

    @rule(side=sides, owner=owners, lease=leases)
    def somebody_asks(self, side: Side, owner: str, lease: int) -> None:
        self.acquire(side, owner, lease)

    @precondition(lambda self: self.believed)
    @rule(data=st.data(), side=sides, lease=leases)
    def a_holder_asks(self, data: st.DataObject, side: Side, lease: int) -> None:
        self.acquire(side, self.somebody(data)[1], lease)

    @precondition(lambda self: self.model.mode == "write" and self.believed)
    @rule(lease=leases, doubtful=st.booleans())
    def the_writer_goes_on_reading(self, lease: int, doubtful: bool) -> None:
        owner = min(self.believed).removesuffix(":write")
        self.acquire("read", owner, lease)
        if owner + ":write" in self.believed:
            self.release("write", owner, False, lease, doubtful)

    def acquire(self, side: Side, owner: str, lease: int) -> None:
        step = Step("acquire", side, owner, 1, lease)
        holds, until = self.believed.get(step.mark, (0, 0))
        step = replace(step, holds=holds + 1)
        self.sent.append(step)
        reply = self.ask(step)
        if reply == "granted":
            self.believed[step.mark] = holds + 1, max(until, self.model.now + lease)
        else:
            assert step.mark not in self.believed

    @precondition(lambda self: self.believed)
    @rule(data=st.data(), lease=leases, part=st.booleans(), doubtful=st.booleans())
    def a_holder_releases(
        self, data: st.DataObject, lease: int, part: bool, doubtful: bool
    ) -> None:
        self.release(*self.somebody(data), part, lease, doubtful)

    def release(self, side: Side, owner: str, part: bool, lease: int, doubtful: bool) -> None:
        step = Step("release", side, owner, 0, lease, doubtful)
        holds, _ = self.believed.pop(step.mark)
        if part and holds > 1:
            step = replace(step, holds=holds - 1, tombstone=False)
            self.believed[step.mark] = step.holds, self.model.now + lease
        assert self.ask(step) == "released"
        if doubtful:
            self.ask(step)
        elif not step.holds:
            # Without doubt about it, nothing of this hold is on its way any more.
            self.sent = [sent for sent in self.sent if sent.mark != step.mark]

    @precondition(lambda self: self.believed)
    @rule(data=st.data(), verb=st.sampled_from(["renew", "set_lease"]), lease=leases)
    def keep(self, data: st.DataObject, verb: str, lease: int) -> None:
        step = Step(verb, *self.somebody(data), lease=lease)
        assert self.ask(step) == "set"
        holds, until = self.believed[step.mark]
        self.believed[step.mark] = holds, self.model.now + lease
        if verb == "renew":
            self.sent.append(step)
            self.believed[step.mark] = holds, max(until, self.model.now + lease)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def something_arrives_again_or_late(self, data: st.DataObject) -> None:
        self.ask(data.draw(st.sampled_from(self.sent)))

    @rule(
        what=st.sampled_from(["dies", "is a stranger", "frees the lock by force"]),
        verb=st.sampled_from(["release", "renew", "set_lease"]),
        side=sides,
        owner=owners,
    )
    def somebody_interferes(self, what: str, verb: str, side: Side, owner: str) -> None:
        step = Step(verb, side, owner)
        if what == "dies":
            self.believed.pop(owner, None)
            self.believed.pop(owner + ":write", None)
        elif what == "is a stranger" and step.mark not in self.believed:
            self.ask(step)
        elif what == "frees the lock by force" and side == self.model.mode:
            self.ask(Step("force_release", side, owner))
            self.believed.clear()

    @rule(units=st.integers(1, 2))
    def time_passes(self, units: int) -> None:
        self.server.wait(units)
        self.model.wait(units)
        self.seen = self.server.state()
        present = self.model.now
        self.believed = {mark: b for mark, b in self.believed.items() if b[1] > present}

    def somebody(self, data: st.DataObject) -> tuple[Side, str]:
        """Return who holds it, on which side."""
        mark = data.draw(st.sampled_from(sorted(self.believed)))
        owner = mark.removesuffix(":write")
        return ("read" if mark == owner else "write"), owner

    @invariant()
    def the_server_has_what_the_model_has(self) -> None:
        fields, left, lock_left = self.seen
        model, present = self.model, self.model.now
        counts = {mark: str(count) for mark, count in model.counts.items()}
        assert fields == ({"mode": model.mode} | counts if model.mode else {})
        assert left == {hold_key(*hold): end - present for hold, end in model.leases.items()}
        assert lock_left == (model.ends - present if model.mode else 0)

    @invariant()
    def many_readers_or_one_writer(self) -> None:
        writers = [mark for mark in self.believed if mark.endswith(":write")]
        if writers:
            (writer,) = writers
            assert {*self.believed} <= {writer, writer.removesuffix(":write")}

    @invariant()
    def whoever_holds_it_can_rely_on_it(self) -> None:
        fields, left, lock_left = self.seen
        for mark, (holds, until) in self.believed.items():
            assert int(fields[mark]) >= holds
            assert lock_left >= until - self.model.now
            if not mark.endswith(":write"):
                own = [left.get(hold_key(mark, n), 0) for n in range(1, int(fields[mark]) + 1)]
                assert max(own) >= until - self.model.now

    @invariant()
    def readers_keep_it_no_longer_than_one_needs_it(self) -> None:
        fields, left, lock_left = self.seen
        if fields.get("mode") == "read":
            counts = {mark: int(fields[mark]) for mark in fields if mark != "mode"}
            own = [(mark, n) for mark, count in counts.items() for n in range(1, count + 1)]
            assert lock_left == max(left.get(hold_key(*hold), 0) for hold in own)

    def teardown(self) -> None:
        for owner in (A, B, C):
            for side in ("read", "write"):
                self.ask(Step("release", side, owner, 0, tombstone=True))
        fields, _, _ = self.seen
        assert fields == {}


@contextmanager
def connected(url: str) -> Iterator[redis_py.Redis]:
    with redis_py.Redis.from_url(url) as redis:
        yield redis
        redis.flushdb()


def run(server: Server, examples: int, **options: Any) -> None:
    machine = type("Machine", (ReadersAndWriters,), {"server": server})
    checks = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        **options,
    )
    run_state_machine_as_test(machine, settings=checks)


def test_the_scripts_keep_to_the_model(server_url: str) -> None:
    with connected(server_url) as redis:
        run(Server(redis), 50)
