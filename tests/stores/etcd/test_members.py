"""The store on etcd with members that are of no use, and old leaders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from redisson_py._stores.contract import Busy, Renewal
from redisson_py._stores.etcd import EtcdStore, messages
from redisson_py.errors import BackendError, ConnectionLostError
from tests.stores.bell import Bell
from tests.stores.etcd.client import LEASE, Client, counted, soon
from tests.stores.etcd.server import EtcdServer
from tests.support.certificates import make_certificates
from tests.support.waiting import until


async def test_a_member_with_a_bad_certificate_is_passed_over(tmp_path: Path) -> None:
    good = make_certificates(tmp_path / "one", "IP:127.0.0.1")
    bad = make_certificates(tmp_path / "two", "IP:127.0.0.1")
    with EtcdServer(good) as trusted, EtcdServer(bad) as other:
        url = f"etcds://{other.address},{trusted.address}"
        async with Client(url, ca=str(good.authority)) as client:
            first = await client.granted("a", "a:1")
            trusted.kill()
            with pytest.raises(ConnectionLostError, match="in time"):
                await client.store.ping(soon(0.5))
            trusted.start()
            (kept,) = await client.renew(Renewal("a", "a:1", first.token, LEASE))
            assert kept is not None
        # With none that is trusted there is nothing to wait for.
        nobody = EtcdStore.from_url(f"etcds://{other.address}", ca=str(good.authority))
        with pytest.raises(BackendError, match=r"TLS with etcd at .* failed") as caught:
            await nobody.start(Bell(), soon())
        assert not isinstance(caught.value, ConnectionLostError)


@asynccontextmanager
async def refusing(code: grpc.StatusCode, text: str) -> AsyncIterator[str]:
    """Run a server that refuses all but `Status`; yield its address."""

    class Refuse:
        def service(self, details: grpc.HandlerCallDetails) -> Any:
            async def answer(request: bytes, context: Any) -> bytes:
                if details.method != messages.STATUS.path:
                    await context.abort(code, text)
                return messages.serialized(messages.STATUS.reply(version="3.6.0"))

            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.aio.server(handlers=[Refuse()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.FAILED_PRECONDITION])
@pytest.mark.parametrize("text", ["rpc not supported for learner", "not capable"])
async def test_what_a_member_cannot_do_another_is_asked_for(
    server: EtcdServer, code: grpc.StatusCode, text: str
) -> None:
    """A learner, and a member that has just begun: 3.6 gives its refusal another code than 3.4."""
    async with refusing(code, f"etcdserver: {text}") as learner:
        async with Client(f"etcd://{learner},{server.address}") as client:
            await client.granted("a", "a:1")


async def test_a_renewal_of_a_leader_that_was_replaced_does_not_count(
    server: EtcdServer, one: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not know yet that it is none, and the new one has heard of no renewal."""
    first = await one.granted(name, "a:1")
    counts = counted(one, monkeypatch)
    call = one.store._link.call

    async def replaced(method: Any, request: Any, deadline: float) -> Any:
        answer = await call(method, request, deadline)
        if method is messages.LEASE_RENEW and counts[method.path] == 1:
            # It is the leader again, in the next term.
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        return answer

    monkeypatch.setattr(one.store._link, "call", replaced)
    (end,) = await one.renew(Renewal(name, "a:1", first.token, LEASE))
    assert counts[messages.LEASE_RENEW.path] == 2
    assert end == one.session.until


async def test_a_stream_is_opened_on_no_connection_that_has_failed(
    one: Client, two: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another call may find out while the stream's begins."""
    await two.granted(name, "b:1")
    link = one.store._link
    metadata, used = link.metadata, []

    async def failing(connection: Any, end: float) -> Any:
        found = await metadata(connection, end)
        used.append(connection)
        if len(used) == 1:
            link.retire(connection)
        return found

    monkeypatch.setattr(link, "metadata", failing)
    assert await one.ask(name, "a:1", waits=True) == Busy(None)
    await until(lambda: len(used) == 2 and one.store._watches._outgoing is not None)
    assert not used[1].retired
    await two.give_back(name, "b:1")
    await one.bell.heard(name)
    await one.granted(name, "a:1", waits=True)
