"""The count of hand-offs among many clients runs and adds up; its figures are nobody's promise."""

from __future__ import annotations

import asyncio
import sys

import pytest
from redis.asyncio import Redis

from benchmarks.rivals.bare_stream import BareStreamLeast
from benchmarks.scenarios import crowd
from benchmarks.scenarios.crowd import Look, figures, shares
from benchmarks.scenarios.crowd_workers import Found
from redisson_py.testing import running_server
from tests.support import repository

_MS = 1_000_000


def row(*visits: tuple[int, int, int], clients: int, pushes: int = 0) -> dict[str, float]:
    """Return what is said of visits in the second between 1,000 and 2,000 ms; times in ms."""
    found: Found = {
        "visits": [(asked * _MS, begin * _MS, party) for asked, begin, party in visits],
        "pushes": [1_500 * _MS] * pushes,
    }
    looks = (
        Look(at=1_000 * _MS, scripts=100, publishes=10, cpu=1.0),
        Look(at=2_000 * _MS, scripts=112, publishes=16, cpu=1.0006),
    )
    return figures([found], clients, *looks)


def test_a_hand_off_is_a_grant_to_another_client_than_the_one_before() -> None:
    # 0, 0, 1, 1, 0: two hand-offs. What was before and after the second does not count.
    said = row(
        *((900, 950, 1), (1_000, 1_100, 0), (1_100, 1_200, 0), (1_000, 1_300, 1)),
        *((1_300, 1_400, 1), (1_200, 1_500, 0), (1_500, 2_100, 0)),
        clients=2,
        pushes=6,
    )
    assert said[crowd.RATE] == 2
    assert said[crowd.GRANTS] == 5
    assert said[crowd.MEAN] == 500
    assert said[crowd.SCRIPTS] == 6
    assert said[crowd.PUBLISHES] == 3
    assert said[crowd.PUSHES] == 3
    assert said[crowd.SERVER] == pytest.approx(300)
    assert said[crowd.EVENNESS] == pytest.approx(25 / (2 * (9 + 4)))


def test_the_longest_wait_may_be_of_one_that_never_got_in() -> None:
    said = row((900, 1_100, 0), (1_100, 1_200, 1), (500, 0, 2), clients=3)
    assert said[crowd.LONGEST] == 1_500
    assert said[crowd.ROUNDS] == pytest.approx(1_500 / (3 * 1_000))
    # Two of three were in, as often as each other.
    assert said[crowd.EVENNESS] == pytest.approx(2 / 3)


def test_where_nobody_hands_on_there_are_no_figures_of_a_hand_off() -> None:
    assert row((900, 1_100, 0), (800, 0, 1), clients=2) == {
        crowd.RATE: 0,
        crowd.GRANTS: 1,
        crowd.LONGEST: 1_200,
    }


@pytest.mark.parametrize(("clients", "workers"), [(1, 1), (8, 1), (7, 3), (2, 2), (128, 3)])
def test_clients_are_spread_over_processes_without_a_gap(clients: int, workers: int) -> None:
    found = shares(clients, workers)
    numbers = [one["first"] + place for one in found for place in range(one["clients"])]
    assert numbers == [*range(clients)]
    assert max(one["clients"] for one in found) - min(one["clients"] for one in found) <= 1


async def test_the_least_scripts_make_six_commands_of_a_pair() -> None:
    async with running_server() as server, Redis.from_url(server.url) as looking:
        side = BareStreamLeast()
        await side.open(server.url)
        await looking.config_resetstat()
        assert await side.pairs("k", 0) == 1
        stats: dict[str, dict[str, int]] = await looking.info("commandstats")
        await side.close()
    calls = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}
    calls.pop("config|resetstat")
    least = ("exists", "hincrby", "pexpire", "hexists", "del", "publish")
    assert calls == {"evalsha": 2, **dict.fromkeys(least, 1)}


async def test_the_command_counts_every_kind_on_a_server_of_its_own() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.crowd", "--kinds", ",".join(crowd.KINDS)),
        *("--clients", "2,5", "--seconds", "0.1", "--hold", "1", "--pause", "1"),
        *("--processes", "2"),
        cwd=repository.ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(100):
        output, _ = await process.communicate()
    printed = output.decode()
    assert process.returncode == 0, printed
    for kind in crowd.KINDS:
        for clients in (2, 5):
            line = next(
                one for one in printed.splitlines() if one.startswith(f"{kind}, {clients} ")
            )
            # Where nobody happened to hand on, three figures are left.
            printed_figures = line.removeprefix(f"{kind}, {clients}").split()
            assert len(printed_figures) in (3, 10), printed
