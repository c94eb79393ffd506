"""What nemeses do to links really happens, and links work when they have ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from redisson_py import Redisson
from tests.jepsen.field import Link
from tests.jepsen.fields import field_for, strike, strike_until, strikes, work
from tests.support.node_info import calls
from tests.support.waiting import until

#: What shows that a fault acts.
SIGNS: dict[str, Callable[[Link], bool]] = {
    "refuse": lambda link: link.proxy.refused > 0,
    "black-hole-up": lambda link: link.proxy.up.bytes_in > link.proxy.up.bytes_out,
    "black-hole-down": lambda link: link.proxy.down.bytes_in > link.proxy.down.bytes_out,
    "black-hole": lambda link: link.proxy.up.bytes_in > link.proxy.up.bytes_out,
    "delay": lambda link: link.proxy.up.bytes_in > link.proxy.up.bytes_out,
    "late": lambda link: link.proxy.held > 0,
}


@pytest.mark.parametrize("name", SIGNS)
async def test_a_link_is_spoilt_for_a_while(tmp_path: Path, name: str) -> None:
    async with field_for(tmp_path, name) as field, work(field) as client:
        (link,) = field.links
        await until(lambda: client.statistics().acquires > 0)

        async def acts() -> bool:
            return SIGNS[name](link)

        await strike_until(field, name, acts)
        await goes_on(link, client.statistics().acquires, client)


async def test_replies_come_in_pieces(tmp_path: Path) -> None:
    async with field_for(tmp_path, "dribble") as field, work(field) as client:
        (link,) = field.links
        down = link.proxy.down
        await until(lambda: client.statistics().acquires > 0)

        async def in_pieces() -> bool:
            size, pieces = down.bytes_out, down.writes
            await until(lambda: down.writes >= pieces + 10 or not link.faults)
            # A write under way at the beginning may be a whole one.
            most = 16 * (down.writes - pieces) + 1000
            return bool(link.faults) and down.bytes_out - size <= most

        await strike_until(field, "dribble", in_pieces)
        await goes_on(link, client.statistics().acquires, client)


@pytest.mark.parametrize("name", ["cut", "swallow", "cut-after", "duplicate"])
async def test_it_is_counted_how_often_a_link_was_spoilt(tmp_path: Path, name: str) -> None:
    async with field_for(tmp_path, name) as field, work(field) as client:
        (link,) = field.links
        await until(lambda: client.statistics().acquires > 0)
        spoilt = 0
        for seed in range(20):
            await strike(field, name, seed)
            spoilt = sum(op.n or 0 for op in strikes(tmp_path))
            if spoilt:
                break
        assert spoilt
        await until(lambda: client.statistics().reconnects > 0)
        if name == "duplicate":
            # The bytes are followed by a sign that the server has read them.
            assert await calls(link.server, "echo") == spoilt
        await goes_on(link, client.statistics().acquires, client)


async def goes_on(link: Link, acquired: int, client: Redisson) -> None:
    """Return when the client acquires again, through a link without faults."""
    assert not link.faults
    await until(lambda: client.statistics().acquires > acquired)
