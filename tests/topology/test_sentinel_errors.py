"""What callers are told when Sentinels do not lead to a master."""

from __future__ import annotations

import pytest

from redisson_py._addresses import AddressMap
from redisson_py.errors import BackendError, ConnectionLostError
from tests.support.fake_peer import error
from tests.support.waiting import until
from tests.topology.fakes import FakeSentinel, Scene, Seeker, address_of

pytestmark = pytest.mark.also("floor")


async def refusal(seeker: Seeker, seconds: float = 20.0) -> BackendError:
    """Return the error of a call that is not answered."""
    with pytest.raises(BackendError) as caught:
        await seeker.ask("GET", "a", seconds=seconds)
    return caught.value


def where(sentinel: FakeSentinel) -> str:
    """Return the address of a Sentinel as errors have it."""
    return "{}:{}".format(*address_of(sentinel))


async def test_one_sentinel_with_other_credentials_does_not_matter(scene: Scene) -> None:
    first, *others = await scene.sentinels(await scene.server())
    first.greeting = error("WRONGPASS no")
    seeker = await scene.seek(first, *others)
    await seeker.ask("GET", "a")


async def test_sentinels_that_are_away_may_come_back(scene: Scene) -> None:
    sentinels = await scene.sentinels(await scene.server())
    for each in sentinels:
        await each.refuse()
    seeker = await scene.seek(*sentinels)
    raised = await refusal(seeker, 1.5)
    assert isinstance(raised, ConnectionLostError)
    for each in sentinels:
        assert f"Sentinel at {where(each)}" in str(raised)
    call = seeker.call("GET", "a")
    await sentinels[2].listen()
    await call.future


async def test_silent_sentinels_are_named(scene: Scene) -> None:
    (sentinel,) = await scene.sentinels(await scene.server(), 1)
    sentinel.answers = False
    seeker = await scene.seek(sentinel)
    raised = await refusal(seeker, 2.5)
    assert isinstance(raised, ConnectionLostError)
    assert f"Sentinel at {where(sentinel)}" in str(raised)
    call = seeker.call("GET", "a")
    sentinel.answer_all()
    await call.future


async def test_one_that_does_not_know_the_service_yet_may_learn_it(scene: Scene) -> None:
    first, second, third = await scene.sentinels(await scene.server())
    await second.refuse()
    await third.refuse()
    first.otherwise = lambda command: error("ERR No such master with that name")
    seeker = await scene.seek(first, second, third)
    raised = await refusal(seeker, 1.5)
    assert isinstance(raised, ConnectionLostError)
    assert f"Sentinel at {where(first)} does not know 'main'" in str(raised)


async def test_a_replica_is_not_taken_for_the_master(scene: Scene) -> None:
    replica = await scene.server("slave")
    (sentinel,) = await scene.sentinels(replica, 1)
    raised = await refusal(await scene.seek(sentinel), 1.5)
    assert isinstance(raised, ConnectionLostError)
    assert "{}:{} is a replica".format(*address_of(replica)) in str(raised)
    assert not replica.commands


async def test_an_address_map_that_fails_is_reported(scene: Scene) -> None:
    (sentinel,) = await scene.sentinels(await scene.server(), 1)

    def broken(host: str, port: int) -> tuple[str, int]:
        raise KeyError("nowhere")

    seeker = await scene.seek(sentinel, address_map=AddressMap(broken))
    raised = await refusal(seeker)
    assert not isinstance(raised, ConnectionLostError)
    assert "address_map failed for" in str(raised)
    # A message does not break the connection that it came on.
    other = await scene.server()
    await until(lambda: sentinel.count(b"SUBSCRIBE") == 1)
    sentinel.announce(other, other)
    await seeker.sentinels[0].stream.command(("PING",), 10).future
    assert sentinel.open == 1
