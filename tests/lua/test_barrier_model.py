"""Whatever parties do in whatever order, and twice and late, they are told what the model says."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from tests.support.scripts.barrier import (
    BROKEN,
    OTHER_PARTIES,
    RELEASED,
    VOID,
    WAITING,
    BarrierScripts,
)
from tests.support.scripts.calls import Scripts, ask

T = TypeVar("T")
PARTIES = 3

_barriers = itertools.count()


@dataclass
class Model:
    """What the headers of the scripts promise, for a barrier of three.

    Attributes:
        waiting: Who waits in the present generation, in the order of arrival.
        dead: Those of them whose arrival has ended, unnoticed.
        aborted: It stays broken until it is reset.
        given: Generation and position of all who ever arrived.
        released: The generations that all parties came to.
        gone: Who has left and not been released.
    """

    present: int = 1
    broken: bool = False
    aborted: bool = False
    waiting: list[str] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    given: dict[str, tuple[int, int]] = field(default_factory=dict)
    released: set[int] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def wait(self, owner: str, parties: int = PARTIES) -> tuple[int, int]:
        """Return the state and the position that this owner is told."""
        if owner in self.gone:
            return VOID, -1
        generation, position = self.given.get(owner, (0, -1))
        if generation in self.released:
            return RELEASED, position
        if self.broken or (generation and generation != self.present):
            return BROKEN, position
        if self.dead or (generation and owner not in self.waiting):
            self._break()
            return BROKEN, position
        if generation:
            return WAITING, position
        if self.waiting and parties != PARTIES:
            return OTHER_PARTIES, PARTIES
        position = len(self.waiting)
        self.given[owner] = (self.present, position)
        self.waiting.append(owner)
        if position + 1 < PARTIES:
            return WAITING, position
        self.released.add(self.present)
        self._start_anew()
        return RELEASED, position

    def leave(self, owner: str) -> int:
        generation, position = self.given.get(owner, (0, -1))
        if generation in self.released:
            return position
        self.gone.add(owner)
        if owner in self.waiting:
            self._break()
        return -1

    def die(self, owner: str) -> None:
        self.dead.add(owner)
        if self.dead == {*self.waiting}:
            self._start_anew()

    def abort(self) -> int:
        was_broken = self.broken
        if not was_broken:
            self._break()
        self.aborted = True
        return 1 - was_broken

    def reset(self) -> int:
        found = self.broken or bool(self.waiting)
        self.broken = self.aborted = False
        self._start_anew()
        return int(found)

    def _break(self) -> None:
        self.broken = True
        self.waiting.clear()
        self.dead.clear()

    def _start_anew(self) -> None:
        self.present += 1
        self.waiting.clear()
        self.dead.clear()


class Machine(RuleBasedStateMachine):
    """Does the same to the scripts and to the model."""

    url: str
    owners = Bundle("owners")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.names = itertools.count()
        self.runner = asyncio.Runner()
        self.redis: Redis = Redis.from_url(self.url)
        scripts = self.do(Scripts.on(self.redis))
        key = f"b{next(_barriers)}".encode()
        self.barrier = BarrierScripts(scripts, key, PARTIES)
        self.generations: dict[int, int] = {}
        self.calls: list[tuple[str, int, int]] = []

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.do(self.barrier.reset())
        self.do(self.redis.aclose())
        self.runner.close()

    def waits(self, owner: str, generation: int = 0, parties: int = PARTIES) -> None:
        """Ask as a client does: with the generation once it is known."""
        expected = self.model.wait(owner, parties)
        reply = self.do(
            self.barrier.wait(owner, str(self.generations.get(generation, 0)), parties=parties)
        )
        assert (reply.state, reply.position) == expected
        mine, _ = self.model.given.get(owner, (0, 0))
        if mine and reply.state != VOID:
            assert self.generations.setdefault(mine, reply.generation) == reply.generation

    @rule(target=owners, parties=st.sampled_from([PARTIES, PARTIES, PARTIES, 2, 4]))
    def arrive(self, parties: int) -> str:
        owner = f"o{next(self.names)}"
        # The first to come decides the number.
        self.waits(owner, parties=parties if self.model.waiting else PARTIES)
        return owner

    @rule(target=owners)
    def all_arrive(self) -> Any:
        owners = [f"o{next(self.names)}" for _ in range(PARTIES)]
        for owner in owners:
            self.waits(owner)
        return multiple(*owners)

    @rule(owner=owners)
    def arrive_again(self, owner: str) -> None:
        self.waits(owner)

    @rule(owner=owners)
    def look_again(self, owner: str) -> None:
        generation, _ = self.model.given.get(owner, (0, 0))
        self.waits(owner, generation)

    @rule()
    def all_that_was_ever_sent_comes_again(self) -> None:
        for owner in [*self.model.given, *self.model.gone]:
            self.waits(owner)
            self.look_again(owner)
        for owner in sorted(self.model.gone):
            self.leave(owner)

    @rule(owner=owners)
    def leave(self, owner: str) -> None:
        assert self.do(self.barrier.leave(owner)) == self.model.leave(owner)

    @rule(target=owners)
    def leave_before_it_arrives(self) -> str:
        owner = f"o{next(self.names)}"
        self.leave(owner)
        return owner

    @precondition(lambda self: self.model.waiting and not self.model.dead)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(self.model.waiting))
        self.do(self.barrier.die(owner))
        self.model.die(owner)

    @rule(verb=st.sampled_from(["abort", "reset"]))
    def change(self, verb: str) -> None:
        number = len(self.calls) + 1
        expected = self.model.abort() if verb == "abort" else self.model.reset()
        assert self.do(getattr(self.barrier, verb)(calls=number)) == expected
        self.calls.append((verb, number, expected))

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def repeat_a_change(self, data: st.DataObject) -> None:
        verb, number, answer = data.draw(st.sampled_from(self.calls))
        reply = self.do(getattr(self.barrier, verb)(calls=number))
        # An older one is not done either, but nobody waits for its answer any more.
        assert reply == (answer if number == len(self.calls) else 0)

    @invariant()
    def what_people_see_is_so(self) -> None:
        seen = self.do(self.barrier.look())
        broken = self.model.broken or bool(self.model.dead)
        assert seen.broken == broken
        assert {*seen.waiting} == (set() if broken else {*self.model.waiting})
        assert seen.n_waiting == len(seen.waiting)
        if self.model.waiting and not broken:
            assert seen.generation == self.generations[self.model.present]
            assert seen.parties == PARTIES

    @invariant()
    def nothing_lasts_but_an_abort(self) -> None:
        keys = [self.barrier.key, self.barrier.arrivals]
        found = self.do(ask(self.redis, "EXISTS", *keys))
        assert found == (2 if self.model.waiting else 1 if self.model.broken else 0)
        lasting = [key for key in keys if self.do(ask(self.redis, "PTTL", key)) == -1]
        assert lasting == ([self.barrier.key] if self.model.aborted else [])

    @invariant()
    def generations_have_names_of_their_own(self) -> None:
        names = [self.generations[each] for each in sorted(self.generations)]
        assert names == sorted({*names})

    @invariant()
    def a_position_is_given_once_a_generation(self) -> None:
        assert len({*self.model.given.values()}) == len(self.model.given)


def test_the_scripts_do_what_the_model_does(server_url: str) -> None:
    class OnThisServer(Machine):
        url = server_url

    run_state_machine_as_test(
        OnThisServer, settings=settings(max_examples=25, stateful_step_count=20, deadline=None)
    )
