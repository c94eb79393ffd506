"""Each check of `redisson-py doctor` over facts made by hand: what no server here can have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from redisson_py._cli.checks import access, clocks, servers, topologies
from redisson_py._cli.checks.examination import examine
from redisson_py._cli.checks.facts import (
    Clock,
    Cluster,
    Facts,
    Sentinel,
    Server,
    Trial,
)
from redisson_py._cli.checks.finding import worst_first
from redisson_py._cli.checks.probes import commands, refusals, tryable
from redisson_py._cli.commands.acl import permissions
from redisson_py.errors import BackendError

ONE = Facts("single", "h:1")


def server(info: dict[str, str] | None = None, **fields: Any) -> Server:
    return Server("h:1", info=info or {}, **fields)


@pytest.mark.parametrize(
    ("info", "level"),
    [
        ({"redis_version": "6.0.16"}, "problem"),
        ({"redis_version": "6.2.0"}, "ok"),
        ({"redis_version": "7.0.15"}, "ok"),
        ({"redis_version": "7.2.0"}, "warning"),
        ({"redis_version": "7.2.4"}, "warning"),
        ({"redis_version": "7.2.5"}, "ok"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, "warning"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.6"}, "ok"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, "ok"),
        ({"redis_version": "8.0-m02"}, "ok"),
        ({}, "not visible"),
    ],
)
def test_version(info: dict[str, str], level: str) -> None:
    assert servers.check_version(server(info), ONE).level == level


@pytest.mark.parametrize(
    ("used", "limit", "level"),
    [(1, 0, "ok"), (899, 1000, "ok"), (900, 1000, "warning"), (1000, 1000, "problem")],
)
def test_memory(used: int, limit: int, level: str) -> None:
    info = {"used_memory": str(used), "maxmemory": str(limit)}
    assert servers.check_memory(server(info), ONE).level == level


@pytest.mark.parametrize("field", ["aof_last_write_status", "rdb_last_bgsave_status"])
def test_disk_that_fails_is_a_problem(field: str) -> None:
    found = servers.check_persistence(server({"aof_enabled": "1", field: "err"}), ONE)
    assert found.level == "problem"


@pytest.mark.parametrize("config", [{"save": ""}, {"stop-writes-on-bgsave-error": "no"}])
def test_snapshot_that_stops_no_write_is_no_problem(config: dict[str, str]) -> None:
    info = {"aof_enabled": "1", "rdb_last_bgsave_status": "err"}
    assert servers.check_persistence(server(info, config=config), ONE).level == "ok"


@pytest.mark.parametrize("field", ["redis_mode", "server_mode"])
def test_sentinel_that_is_named_as_a_server_is_a_problem(field: str) -> None:
    found = servers.check_role(server({field: "sentinel"}), ONE)
    assert found is not None
    assert (found.level, "redis+sentinel://" in found.todo) == ("problem", True)


def test_info_that_is_refused_makes_nothing_bad() -> None:
    blind = Server("h:1", info=None, config=None, config_refusal="no permissions to run", loaded=9)
    findings = examine(replace(ONE, servers=(blind,)))
    assert {each.level for each in findings} == {"ok", "not visible"}
    hidden = [each for each in findings if each.level == "not visible"]
    assert all("allow +" in each.todo for each in hidden)


@pytest.mark.parametrize(
    ("cached", "level"), [(None, "ok"), (51, "ok"), (60, "ok"), (3, "warning")]
)
def test_scripts_that_vanish(cached: int | None, level: str) -> None:
    found = servers.check_scripts(server(loaded=51, cached=cached), ONE)
    assert found is not None
    assert found.level == level


def test_script_load_that_is_refused_is_a_problem() -> None:
    found = servers.check_scripts(server(loaded=0, load_error="NOPERM"), ONE)
    assert found is not None
    assert found.level == "problem"
    assert "NOPERM" in found.found


@pytest.mark.parametrize(
    ("timeout", "lease_time", "level"),
    [("0", 30, "ok"), ("10", 30, "warning"), ("11", 30, "ok"), ("11", 60, "warning")],
)
def test_idle_connections(timeout: str, lease_time: float, level: str) -> None:
    facts = replace(ONE, lease_time=lease_time)
    (found,) = servers.check_idle(server(config={"timeout": timeout}), facts)
    assert found.level == level


def test_settings_that_the_server_does_not_have_are_no_finding() -> None:
    bare = server(config={})
    assert not list(servers.check_idle(bare, ONE))
    assert servers.check_buffers(bare, ONE) is None
    assert servers.check_settings(bare, ONE) is None
    assert not list(topologies.check_cluster_settings(bare, replace(ONE, topology="cluster")))


# Clocks.


def clock(server: float, asked: float, answered: float) -> Clock:
    return Clock(1e9 + server, 1e9 + asked, 1e9 + answered, asked, answered)


@pytest.mark.parametrize(
    ("times", "level"),
    [
        # A slow answer has wide bounds: nothing is certain.
        ([(100, 100, 100.1)], "ok"),
        ([(109, 100, 110)], "ok"),
        ([(106, 100, 100.1)], "warning"),
        ([(94, 100, 100.1)], "warning"),
        # Apart from each other.
        ([(100, 100, 100.1), (101, 100, 100.1)], "ok"),
        ([(100, 100, 100.1), (101.5, 100, 100.1)], "warning"),
        ([(100, 100, 100.1), (111, 100, 100.1)], "problem"),
        ([(100, 100, 100.1), (111, 100, 112)], "ok"),
    ],
)
def test_clocks_are_compared_within_bounds(
    times: list[tuple[float, float, float]], level: str
) -> None:
    asked = tuple(server(clocks=(clock(*each),)) for each in times)
    found = clocks.check_clocks(replace(ONE, servers=asked))
    assert found is not None
    assert found.level == level


@pytest.mark.parametrize(
    ("second", "level"),
    [
        (clock(102, 102, 102.1), "ok"),
        (clock(103, 102, 103.1), "ok"),
        (clock(103, 102, 102.1), "problem"),
        (clock(98, 102, 102.1), "problem"),
    ],
)
def test_clock_that_was_stepped_meanwhile_is_a_problem(second: Clock, level: str) -> None:
    both = server(clocks=(clock(100, 100, 100.1), second))
    found = clocks.check_clocks(replace(ONE, servers=(both,)))
    assert found is not None
    assert found.level == level
    assert ("stepped" in found.found) is (level == "problem")


# Permissions.


def asked_for(*names: str) -> dict[str, tuple[str, ...]]:
    return commands(names, b"k", "p:", "return 1", 0)


def test_every_documented_command_has_a_harmless_call() -> None:
    rules = permissions(cluster=True, sharded=True, sync=True)
    names = [rule[1:] for rule in rules if rule[0] == "+"]
    asked = asked_for(*names)
    assert {rule for rule in asked if rule[0] == "+"} == {f"+{name}" for name in names}
    for rule, words in asked.items():
        if rule[0] == "+":
            assert words[0].lower() == rule[1:].partition("|")[0]
    assert list(tryable(asked))[:2] == ["+set", "+rpush"]
    assert not {"+subscribe", "+unsubscribe"} & tryable(asked).keys()


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        (b"OK", None),
        (1, None),
        (None, None),
        (BackendError("ERR value is not an integer"), None),
        (BackendError("this user has no permissions to run the 'zadd' command"), "+zadd"),
        (b"User app has no permissions to run the 'zadd' command", "+zadd"),
        (BackendError("No permissions to access a key"), "~ (keys)"),
        (b"User app has no permissions to access the 'channel' key", "~ (keys)"),
        (BackendError("No permissions to access a channel"), "&redisson*"),
    ],
)
def test_refusal_is_read_from_the_words_of_each_server(reply: object, rule: str | None) -> None:
    asked = {"+zadd": asked_for("zadd")["+zadd"]}
    assert [each.rule for each in refusals(asked, [reply])] == ([rule] if rule else [])


# The lock.


@pytest.mark.parametrize(
    ("pings", "lease_time", "level"),
    [((0.1, 4.9), 30, "ok"), ((0.1, 5.1), 30, "warning"), ((0.1, 1.1), 6, "warning")],
)
def test_latency_is_judged_by_the_lease_only(
    pings: tuple[float, ...], lease_time: float, level: str
) -> None:
    found = access.check_latency(replace(ONE, trial=Trial(pings=pings), lease_time=lease_time))
    assert found is not None
    assert found.level == level


# Several servers.


@pytest.mark.parametrize(
    ("rows", "level"),
    [
        ([], "warning"),
        (["state=online,lag=0"], "ok"),
        (["state=online,lag=11"], "warning"),
        (["state=wait_bgsave,lag=0"], "warning"),
    ],
)
def test_replicas(rows: list[str], level: str) -> None:
    info = {"role": "master", "connected_slaves": str(len(rows))}
    info |= {f"slave{n}": f"ip=h,port={n},{row}" for n, row in enumerate(rows)}
    found, *_ = topologies.check_replicas(server(info), replace(ONE, topology="cluster"))
    assert found.level == level


def test_sentinels_that_disagree_are_a_problem() -> None:
    fields = {"quorum": "2", "num-other-sentinels": "2", "flags": "master"}
    three = tuple(Sentinel(f"s:{n}", master=f"m:{n % 2}", fields=fields) for n in range(3))
    facts = Facts("sentinel", "s:0", sentinels=three)
    assert "different masters: m:0 and m:1" in next(
        each.found for each in topologies.check_sentinels(facts) if each.level == "problem"
    )


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"quorum": "2", "num-other-sentinels": "2"}, "ok"),
        ({"quorum": "1", "num-other-sentinels": "1"}, "warning"),
        ({"quorum": "4", "num-other-sentinels": "2"}, "problem"),
        ({"quorum": "2", "num-other-sentinels": "2", "flags": "master,o_down"}, "problem"),
    ],
)
def test_sentinels(fields: dict[str, str], level: str) -> None:
    count = int(fields["num-other-sentinels"]) + 1
    sentinels = tuple(Sentinel(f"s:{n}", master="m:1", fields=fields) for n in range(count))
    found = topologies.check_sentinels(Facts("sentinel", "s:0", sentinels=sentinels))
    assert worst_first(found)[0].level == level


@pytest.mark.parametrize(
    ("milliseconds", "level"),
    [("1999", "warning"), ("2000", "ok"), ("5000", "ok"), ("5001", "warning")],
)
def test_detection_of_a_cluster(milliseconds: str, level: str) -> None:
    node = server(config={"cluster-node-timeout": milliseconds})
    (found,) = topologies.check_cluster_settings(node, Facts("cluster", "h:1"))
    assert found.level == level


def test_ranges_of_slots_are_shown() -> None:
    facts = Facts("cluster", "h:1", cluster=Cluster(uncovered=((7, 7), (100, 199))))
    (found,) = topologies.check_cluster(facts)
    assert found.found == "101 of 16384 have no master: 7, 100-199"


# The report.
