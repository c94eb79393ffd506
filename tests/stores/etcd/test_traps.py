"""What goes wrong with etcd: late requests, dead sessions, and keys that two owners share."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest

from redisson_py._stores.contract import Busy, Kind, Renewal
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.link import LeaseEndedError
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError
from tests.stores.etcd.client import LEASE, Client, lost_requests, recorded, soon
from tests.stores.etcd.server import EtcdServer
from tests.support.waiting import until


async def test_a_grant_counts_from_the_last_renewal(
    one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(name, "a:1")
    calls = recorded(one, monkeypatch)
    assert (await one.granted(f"{name}b", "a:2")).until == one.session.until
    assert [method for method, _ in calls] == [messages.TXN]


async def test_a_session_that_runs_out_while_asking_is_renewed(
    one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(name, "a:1")
    session = one.session
    call = one.store._link.call

    async def slow(method: Any, request: Any, deadline: float) -> Any:
        answer = await call(method, request, deadline)
        if method is messages.TXN:
            session.until = now() + 0.1
        return answer

    monkeypatch.setattr(one.store._link, "call", slow)
    before = now()
    assert (await one.granted(f"{name}b", "a:2")).until >= before + LEASE


async def test_a_session_ended_by_our_clock_comes_back_no_more(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    first = await one.granted(name, "a:1")
    await two.granted(f"{name}b", "b:1")
    assert await one.ask(f"{name}b", "a:2", waits=True) == Busy(None)
    session = one.session
    session.until = now() - 0.01
    await one.store._holds.tend(soon())
    # The engine has told the loss: so the hold is gone in etcd as well, not only in our memory.
    assert one.session is not session
    assert server.keys(f"{name}/") == []
    assert await one.renew(Renewal(name, "a:1", first.token, LEASE)) == [None]


async def test_a_waiter_with_a_dead_session_is_not_granted(
    server: EtcdServer, one: Client, two: Client, name: str
) -> None:
    await one.granted(name, "a:1")
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    dead = two.session
    server.ctl("lease", "revoke", f"{dead.number:x}")
    assert await one.ask(name, "a:2", waits=True) == Busy(None)
    await one.give_back(name, "a:1")
    async with Client(server.url) as three:
        third = await three.granted(name, "c:1")
        # Nothing was before its key; but that key has gone with its session.
        assert await two.ask(name, "b:1", waits=True) == Busy(None)
        assert two.session.number != dead.number
        await three.give_back(name, "c:1")
        await two.bell.heard(name)
        granted = await two.granted(name, "b:1", waits=True)
    assert granted.token > third.token
    assert granted.until == two.session.until


async def test_a_late_release_leaves_a_newer_hold_alone(
    one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(name, "a:1")
    calls = recorded(one, monkeypatch)
    assert await one.give_back(name, "a:1") is True
    (release,) = calls
    second = await one.granted(name, "a:2")
    # The same key, with another owner.
    assert not await one.arrives(release)
    assert await one.give_back(name, "a:1") is False
    assert await one.renew(Renewal(name, "a:2", second.token, 0)) == [one.session.until]


@pytest.mark.parametrize("kind", ["lock", "election"])
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("unsure", [True, False])
async def test_an_undo_refuses_its_question_if_it_comes_later(
    server: EtcdServer,
    one: Client,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    waits: bool,
    unsure: bool,
    kind: Kind,
) -> None:
    await one.granted(f"{name}x", "a:0")
    calls = recorded(one, monkeypatch)
    await one.granted(name, "a:1", waits=waits, kind=kind)
    (question,) = calls
    assert await one.give_back(name, "a:1", unsure=unsure) is True
    assert await one.give_back(name, "a:1", unsure=unsure) is False
    # Without `unsure` it would have a hold that nobody gives back.
    assert await one.arrives(question) is not unsure
    assert len(server.keys(f"{name}/")) == (0 if unsure else 1)
    if unsure:
        with pytest.raises(BackendError, match=r"gave .* back and cannot ask again"):
            await one.ask(name, "a:1", waits=True, kind=kind)
        # Others are not concerned, and the note goes with the session.
        await one.granted(name, "a:2")
        assert server.keys("redisson_py/") == ["redisson_py/undone/a:1"]
        await one.store._sessions.end(one.session, soon())
        assert server.keys("redisson_py/") == []


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("held", [True, False])
async def test_the_first_of_two_copies_comes_last(
    server: EtcdServer,
    one: Client,
    two: Client,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    waits: bool,
    held: bool,
) -> None:
    await one.granted(f"{name}x", "a:0")
    if held:
        await two.granted(name, "b:1")
    lost = lost_requests(one, monkeypatch)
    answer = await one.ask(name, "a:1", waits=waits)
    assert isinstance(answer, Busy) is held
    if waits or not held:
        assert await one.give_back(name, "a:1") is not held
    if held:
        await two.give_back(name, "b:1")
    (question,) = lost
    assert not await one.arrives(question)
    assert server.keys(f"{name}/") == []


async def test_a_release_that_was_sent_twice_tells_no_loss(
    one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(f"{name}x", "a:0")
    lost_requests(one, monkeypatch)
    await one.granted(name, "a:1")
    monkeypatch.undo()
    lost_requests(one, monkeypatch, carried_out=True)
    assert await one.give_back(name, "a:1") is None


async def test_a_question_of_a_dead_session_is_refused(
    server: EtcdServer, one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(f"{name}x", "a:0")
    calls = recorded(one, monkeypatch)
    await one.granted(name, "a:1")
    await one.store._sessions.end(one.session, soon())
    with pytest.raises(LeaseEndedError):
        await one.store._link.call(*calls[0], soon())
    assert server.keys(f"{name}/") == []


async def test_two_owners_of_one_client_have_one_key(one: Client, two: Client, name: str) -> None:
    first = await one.granted(name, "a:1")
    assert await one.ask(name, "a:2") == Busy(None)
    assert await one.ask(name, "a:3", waits=True) == Busy(None)
    assert await two.ask(name, "b:1", waits=True) == Busy(None)
    assert await one.give_back(name, "a:3") is False
    assert await one.ask(name, "a:4", waits=True) == Busy(None)
    assert await one.give_back(name, "a:1") is True
    # The one of the same client could not queue: it rings, and is behind the other then.
    await one.bell.heard(name)
    await two.bell.heard(name)
    assert await one.ask(name, "a:4", waits=True) == Busy(None)
    second = await two.granted(name, "b:1", waits=True)
    assert second.token > first.token
    await two.give_back(name, "b:1")
    await one.bell.heard(name)
    assert (await one.granted(name, "a:4", waits=True)).token > second.token


async def test_a_moved_hold_and_the_next_owner_have_one_key(one: Client, name: str) -> None:
    await one.granted(name, "a:1", lease=60, renewed=False)
    assert await one.ask(name, "a:2", waits=True) == Busy(None)
    assert await one.give_back(name, "a:1") is True
    await one.bell.heard(name)
    await one.granted(name, "a:2", waits=True)


async def test_a_late_move_does_not_undo_a_later_one(
    one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await one.granted(name, "a:1")
    calls = recorded(one, monkeypatch)
    # Otherwise its lease has ended, and it is refused for that.
    monkeypatch.setattr(one.store._holds, "_end_lease", AsyncMock())
    await one.renew(Renewal(name, "a:1", first.token, 10, exact=True))
    (move,) = [each for each in calls if moves(each[1])]
    await one.renew(Renewal(name, "a:1", first.token, 60, exact=True))
    # Once more, after the later one: its lease would end the hold early.
    assert not await one.arrives(move)
    state = await one.store.look(name, soon())
    assert state.holder is not None
    assert 30 < state.holder.remaining <= 60


async def test_a_move_without_an_answer_is_done_again(
    one: Client, two: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(f"{name}x", "a:0")
    call = one.store._link.call

    async def lose(method: Any, request: Any, deadline: float) -> Any:
        answer = await call(method, request, deadline)
        if moves(request):
            raise ConnectionLostError("lost", maybe_held=True)
        return answer

    monkeypatch.setattr(one.store._link, "call", lose)
    with pytest.raises(ConnectionLostError):
        await one.granted(name, "a:1", lease=30, renewed=False)
    monkeypatch.undo()
    before = now()
    granted = await one.granted(name, "a:1", lease=60, renewed=False)
    assert before + 60 <= granted.until
    await one.store._sessions.end(one.session, soon())
    assert await two.ask(name, "b:1") == Busy(None)
    assert await one.give_back(name, "a:1") is True
    await two.granted(name, "b:1")


async def test_a_refused_move_leaves_nothing(
    server: EtcdServer, one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(f"{name}x", "a:0")
    refusal = AsyncMock(side_effect=BackendError("no space"))
    monkeypatch.setattr(one.store._sessions, "grant", refusal)
    with pytest.raises(BackendError, match="no space"):
        await one.granted(name, "a:1", lease=3.0, renewed=False)
    assert server.keys(f"{name}/") == []
    await one.granted(name, "a:2")


async def test_a_session_that_may_have_been_ended_is_not_used(
    server: EtcdServer, one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await one.granted(name, "a:1")
    session = one.session
    call = one.store._link.call

    async def lose(method: Any, request: Any, deadline: float) -> Any:
        if method is messages.LEASE_REVOKE:
            raise ConnectionLostError("lost", maybe_held=True)
        return await call(method, request, deadline)

    monkeypatch.setattr(one.store._link, "call", lose)
    session.until = now() - 0.01
    with pytest.raises(ConnectionLostError) as caught:
        await one.ask(f"{name}b", "a:2")
    assert not caught.value.maybe_held
    # The request to end it may still be under way: no renewal counts any more.
    assert await one.renew(Renewal(name, "a:1", first.token, LEASE)) == [None]
    monkeypatch.undo()
    await one.granted(f"{name}b", "a:2")
    assert one.session is not session
    assert server.keys(f"{name}/") == []


async def test_the_session_of_a_waiter_is_renewed(
    server: EtcdServer, one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.granted(name, "a:1")
    async with Client(server.url, lease=2) as two:
        assert await two.ask(name, "b:1", waits=True) == Busy(None)
        before = two.session.until
        calls = recorded(two, monkeypatch)
        await until(lambda: two.session.until > before)
        assert [method for method, _ in calls] == [messages.LEASE_RENEW, messages.RANGE]


def moves(request: Any) -> bool:
    """Return whether a request puts a key under another lease."""
    operations = getattr(request, "success", ())
    return any(each.put.ignore_value for each in operations)
