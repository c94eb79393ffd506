"""Rounds of a barrier on a server whose clock stands still, or was set back to that moment."""

from __future__ import annotations

import pytest

from redisson_py._scripts.source import load
from tests.support.scripts.barrier import RELEASED, WAITING, BarrierScripts, Reply
from tests.support.scripts.calls import LEASE, TOMBSTONE, Scripts, ask

_TIME = "redis.call('TIME')"


class StoppedClock(BarrierScripts):
    """A barrier whose `wait` always sees the same moment; the server does all the rest."""

    moment = ""

    async def arrive(self, owner: str, generation: str = "0") -> Reply:
        """Arrive, or look again at a generation."""
        text = self.scripts.wording(load("barrier.wait")).text
        assert text.count(_TIME) == 1
        if not self.moment:
            seconds, rest = await ask(self.redis, "TIME")
            self.moment = f"{{'{int(seconds)}', '{int(rest)}'}}"
        keys = self.key, self.arrivals, self.released, self.arrival(owner)
        args = owner, self.parties, generation, LEASE, TOMBSTONE, self.channel
        text = text.replace(_TIME, self.moment)
        return Reply(*await ask(self.redis, "EVAL", text, len(keys), *keys, *args))


@pytest.mark.parametrize("rounds", [1, 3])
async def test_a_round_is_none_that_was_released(scripts: Scripts, rounds: int) -> None:
    barrier = StoppedClock(scripts)
    names = set[int]()
    for each in range(rounds):
        replies = [await barrier.arrive(f"{each}{party}") for party in "abc"]
        assert [reply.state for reply in replies] == [WAITING, WAITING, RELEASED]
        names |= {reply.generation for reply in replies}
    assert len(names) == rounds
    first = await barrier.arrive("d")
    # The repetition of an arrival whose reply was lost, and a look.
    assert (await barrier.arrive("d")).state == WAITING
    assert (await barrier.arrive("d", str(first.generation))).state == WAITING
    assert await barrier.leave("d") == -1
    assert (await barrier.look()).broken


async def test_released_parties_still_learn_it(scripts: Scripts) -> None:
    barrier = StoppedClock(scripts)
    replies = [await barrier.arrive(party) for party in "abcd"]
    for position, reply in enumerate(replies[:3]):
        seen = await barrier.arrive("abc"[position], str(reply.generation))
        assert (seen.state, seen.position) == (RELEASED, position)
