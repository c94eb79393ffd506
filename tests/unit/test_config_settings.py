"""What Redisson's settings mean here, those that Redisson itself writes first."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest

from redisson_py import Redisson
from redisson_py._addresses import AddressMap
from redisson_py._redis.config.read import read_config
from redisson_py._redis.redis_py import Servers, servers_from_target
from redisson_py._redis.url import Target
from tests.support.certificates import make_certificates
from tests.unit.config_files import (
    CLUSTER,
    REPLICATED,
    SENTINEL,
    SINGLE,
    WRITTEN_BY_REDISSON,
    need_yaml,
    read,
    with_section,
    write,
)

DEFAULTS = {"lease_time": 30.0, "sync_timeout": 1.0, "sync_replicas": "auto"}


def at(host: str, port: int) -> dict[str, Any]:
    return {"host": host, "port": port}


LOCAL = "127.0.0.1"


@pytest.mark.parametrize(
    ("name", "target", "options"),
    [
        (
            "single",
            Target(
                "single",
                "tcp",
                at(LOCAL, 6379) | {"username": "me", "password": "0123", "db": 2},
                ((LOCAL, 6379),),
            ),
            DEFAULTS | {"client_name": "orders"},
        ),
        (
            "masterSlave",
            Target(
                "single",
                "tls",
                at("redis.example", 6379) | {"password": "yes", "db": 1},
                (("redis.example", 6379),),
            ),
            DEFAULTS,
        ),
        (
            "sentinel",
            Target(
                "sentinel",
                "tcp",
                at(LOCAL, 26379) | {"password": "1e3", "db": 3},
                ((LOCAL, 26379), (LOCAL, 26380)),
                service="orders",
                sentinel=at(LOCAL, 26379) | {"username": "watcher", "password": "null"},
            ),
            {"lease_time": 20.0, "sync_timeout": 2.5, "sync_replicas": 0},
        ),
        (
            "cluster",
            Target("cluster", "tcp", at(LOCAL, 7000) | {"db": 0}, ((LOCAL, 7000), ("::1", 7001))),
            DEFAULTS | {"client_name": "a: #b", "sharded_pubsub": "off"},
        ),
        (
            "replicated",
            Target(
                "replicated",
                "tcp",
                at(LOCAL, 7000) | {"username": "on", "password": "p\"w'\né", "db": 1},
                ((LOCAL, 7000), (LOCAL, 7001)),
            ),
            DEFAULTS,
        ),
    ],
)
def test_what_redisson_writes_is_read(name: str, target: Target, options: dict[str, Any]) -> None:
    need_yaml()
    found, taken = read_config(WRITTEN_BY_REDISSON / f"{name}.yaml", ())
    taken.setdefault("sharded_pubsub", "auto")
    assert (found, taken) == (target, {"sharded_pubsub": "auto"} | options)
    assert isinstance(servers_from_target(found, None), Servers)


def test_what_redisson_leaves_out_when_it_writes_is_reported() -> None:
    need_yaml()
    path = WRITTEN_BY_REDISSON / "natMapper.yaml"
    with pytest.raises(
        ValueError, match=r"natMapper\.hostsPortMap: is missing \(Redisson's toYAML omits it\)"
    ):
        read_config(path, ())
    _, taken = read_config(path, {"address_map"})
    assert "address_map" not in taken


def test_a_client_of_one_server_is_made(tmp_path: Path) -> None:
    need_yaml()
    path = WRITTEN_BY_REDISSON / "single.yaml"
    options = Redisson.from_file(str(path))._context.options
    assert (options.lease_time, options.client_name) == (30.0, "orders")
    options = Redisson.from_file(path, lease_time=7, client_name=None)._context.options
    assert (options.lease_time, options.client_name) == (7.0, None)
    with pytest.raises(TypeError, match="there is no option 'leas_time'"):
        Redisson.from_file(path, leas_time=7)  # type: ignore[call-arg]  # that is it
    table = SINGLE | {"lockWatchdogTimeout": 1500, "clientName": "top"}
    options = Redisson.from_file(write(tmp_path, table))._context.options
    assert (options.lease_time, options.client_name) == (1.5, "top")


@pytest.mark.parametrize(
    ("top", "section", "settings"),
    [
        ({"password": "a"}, {}, {"password": "a"}),
        ({}, {"password": "a", "username": "b"}, {"password": "a", "username": "b"}),
        ({"password": "a"}, {"password": "b"}, {"password": "a"}),
        ({"username": ""}, {"username": "b", "password": None}, {"username": "b"}),
        ({"database": 3}, {}, {"db": 3}),
        ({}, {"database": "3"}, {"db": 3}),
        ({"username": "a"}, {"address": "redis://c:d%20@a:1"}, {"username": "c", "password": "d "}),
    ],
)
def test_the_top_wins_as_with_redisson(
    tmp_path: Path, top: dict[str, Any], section: dict[str, Any], settings: dict[str, Any]
) -> None:
    target, _ = read(tmp_path, with_section(SINGLE, **section) | top)
    assert target.settings == at("a", 1) | settings


def test_a_user_in_the_address_of_a_sentinel_is_the_sentinels(tmp_path: Path) -> None:
    table = with_section(SENTINEL, sentinelAddresses=["redis://:seen@a:1", "redis://:seen@b:2"])
    target, _ = read(tmp_path, table | {"password": "data"})
    assert target.settings == at("a", 1) | {"password": "data"}
    assert target.sentinel == at("a", 1) | {"password": "seen"}


@pytest.mark.parametrize(
    ("section", "announced", "used"),
    [
        (
            {"natMapper": {"class": "org.redisson.api.HostPortNatMapper", "hostsPortMap": "PORTS"}},
            ("10.0.0.1", 1),
            ("m", 2),
        ),
        ({"natMap": "PORTS"}, ("10.0.0.1", 1), ("m", 2)),
        ({"natMap": "PORTS"}, ("10.0.0.1", 3), ("10.0.0.1", 3)),
        ({"natMap": "PORTS"}, ("::1", 1), ("::2", 2)),
        (
            {"natMapper": {"class": "org.redisson.config.HostNatMapper", "hostsMap": {"x": "y"}}},
            ("x", 5),
            ("y", 5),
        ),
        (
            {"natMapper": {"class": "org.redisson.config.HostNatMapper", "hostsMap": {"::1": "y"}}},
            ("::1", 5),
            ("y", 5),
        ),
    ],
)
@pytest.mark.parametrize("table", [CLUSTER, SENTINEL])
def test_a_nat_mapper_is_an_address_map(
    tmp_path: Path,
    table: dict[str, Any],
    section: dict[str, Any],
    announced: tuple[str, int],
    used: tuple[str, int],
) -> None:
    ports = {"10.0.0.1:1": "m:2", "::1:1": "[::2]:2"}
    for mapper in (section, section.get("natMapper", {})):
        for name in ("hostsPortMap", "natMap"):
            if mapper.get(name) == "PORTS":
                mapper[name] = ports
    _, taken = read(tmp_path, with_section(table, **section))
    assert isinstance(taken["address_map"], AddressMap)
    assert taken["address_map"](*announced) == used
    _, taken = read(tmp_path, with_section(table, **section), address_map=None)
    assert "address_map" not in taken


def test_a_list_of_servers_is_mapped_at_once(tmp_path: Path) -> None:
    mapper = {"class": "org.redisson.config.HostNatMapper", "hostsMap": {"a": "x"}}
    target, taken = read(tmp_path, with_section(REPLICATED, natMapper=mapper))
    assert target.addresses == (("x", 1), ("b", 2))
    assert target.settings == at("x", 1)
    assert "address_map" not in taken


@pytest.mark.parametrize("option", ["prefix", "name_mapper"])
def test_a_mapper_of_names_in_java_needs_one_in_python(tmp_path: Path, option: str) -> None:
    table = SINGLE | {"nameMapper": {"class": "com.acme.Mapper"}}
    assert read(tmp_path, table, **{option: "x"})[1] == {}


@pytest.mark.parametrize("value", [True, "true", "Yes", "on"])
def test_switches_are_read(tmp_path: Path, value: object) -> None:
    assert read(tmp_path, SINGLE | {"checkLockSyncedSlaves": value})[1] == {"sync_replicas": "auto"}
    no = {True: False, "true": "false", "Yes": "No", "on": "off"}[value]
    assert read(tmp_path, SINGLE | {"checkLockSyncedSlaves": no})[1] == {"sync_replicas": 0}


def test_certificates_are_taken(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "tls", "IP:127.0.0.1")
    ca, key = str(made.authority), str(made.key)
    table: dict[str, Any] = with_section(SINGLE, address="rediss://a:1", sslProtocols=["TLSv1.3"])
    table |= {"sslTruststore": f"file:{ca}", "sslKeystore": key, "sslKeystorePassword": "pw"}
    target, _ = read(tmp_path, table)
    assert target.settings == at("a", 1) | {
        "ssl_ca_certs": ca,
        "ssl_certfile": key,
        "ssl_keyfile": key,
        "ssl_password": "pw",
        "ssl_min_version": ssl.TLSVersion.TLSv1_3,
    }
    # Without TLS they are not needed.
    assert read(tmp_path, SINGLE | {"sslTruststore": "file:/none"})[0].settings == at("a", 1)
    sentinel = with_section(SENTINEL, sentinelAddresses=["rediss://a:1"], sslTruststore=ca)
    target, _ = read(tmp_path, sentinel)
    assert target.sentinel_kind == target.kind == "tls"
    assert target.sentinel == target.settings == at("a", 1) | {"ssl_ca_certs": ca}


def test_what_has_no_effect_is_listed_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = with_section(SINGLE, timeout=1, tcpNoDelay=True) | {
        "codec": {"class": "org.redisson.codec.Kryo5Codec"},
        "threads": 16,
        "nettyThreads": None,
        "tcpNoDelay": False,
    }
    path = write(tmp_path, table)
    with caplog.at_level(logging.DEBUG):
        Redisson.from_file(path)
    assert [record.getMessage() for record in caplog.records if "ignored" in record.msg] == [
        f"{path}: ignored settings: codec, threads, tcpNoDelay, timeout"
    ]
