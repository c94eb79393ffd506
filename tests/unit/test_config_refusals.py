"""Each thing that a configuration file cannot have here, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from redisson_py import Redisson
from tests.support.passwords import parts_shown, passwords, shown
from tests.unit.config_files import (
    CLUSTER,
    REPLICATED,
    SENTINEL,
    SINGLE,
    read,
    with_section,
    write,
)

_MILLISECONDS = "must be a whole number from 1 to 315360000000"
_CLASS = "cannot run a Java class"
_TLS = with_section(SINGLE, address="rediss://a:1")


def single(**more: Any) -> dict[str, Any]:
    return with_section(SINGLE, **more)


def cluster(**more: Any) -> dict[str, Any]:
    return with_section(CLUSTER, **more)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({}, "one of singleServerConfig, masterSlaveServersConfig, sentinelServersConfig, "),
        ({"singleServerConfig": None}, ", and has none"),
        (
            SINGLE | CLUSTER,
            "the file must have only one of singleServerConfig, clusterServersConfig",
        ),
        ({"singleServerConfig": "canary"}, "singleServerConfig: must contain names and values"),
        # Names.
        (
            SINGLE | {"lockWatchdogTimeOut": 1},
            "TimeOut: Redisson has no such setting here; did you",
        ),
        (SINGLE | {"lockWatchdogTimeOut": 1}, "did you mean lockWatchdogTimeout?"),
        (SINGLE | {"zzz": "canary"}, "zzz: Redisson has no such setting here; known are addressR"),
        (cluster(nodeAdresses=[]), "clusterServersConfig.nodeAdresses: Redisson has no such"),
        (cluster(nodeAdresses=[]), "did you mean nodeAddresses?"),
        (single(nodeAddresses=["canary"]), "singleServerConfig.nodeAddresses: Redisson has no"),
        (single(lockWatchdogTimeout=1), "singleServerConfig.lockWatchdogTimeout: Redisson has no"),
        # Kinds of values.
        (SINGLE | {"password": 83}, "password: must be text (quoted"),
        (single(username=["canary"]), "singleServerConfig.username: must be text"),
        (SINGLE | {"lockWatchdogTimeout": 0}, f"lockWatchdogTimeout: {_MILLISECONDS}"),
        (SINGLE | {"lockWatchdogTimeout": "0123"}, f"lockWatchdogTimeout: {_MILLISECONDS}"),
        (SINGLE | {"lockWatchdogTimeout": "canary"}, f"lockWatchdogTimeout: {_MILLISECONDS}"),
        (SINGLE | {"lockWatchdogTimeout": 1.5}, f"lockWatchdogTimeout: {_MILLISECONDS}"),
        (SINGLE | {"slavesSyncTimeout": True}, f"slavesSyncTimeout: {_MILLISECONDS}"),
        (SINGLE | {"slavesSyncTimeout": "٣"}, f"slavesSyncTimeout: {_MILLISECONDS}"),
        (SINGLE | {"checkLockSyncedSlaves": "canary"}, "checkLockSyncedSlaves: must be true or"),
        (SINGLE | {"checkLockSyncedSlaves": 1}, "checkLockSyncedSlaves: must be true or false"),
        (single(database=-1), "singleServerConfig.database: must be a whole number from 0"),
        (
            cluster(shardedSubscriptionMode="canary"),
            "clusterServersConfig.shardedSubscriptionMode: must be one of AUTO, ON, OFF",
        ),
        # Addresses.
        (single(address=None), "singleServerConfig.address: is missing"),
        (single(address=["redis://a:1"]), "singleServerConfig.address: must be text"),
        ({"masterSlaveServersConfig": {"slaveAddresses": []}}, "masterAddress: is missing"),
        (cluster(nodeAddresses=[]), "clusterServersConfig.nodeAddresses: is missing"),
        (cluster(nodeAddresses="redis://a:1"), "nodeAddresses: must be a list of texts"),
        (cluster(nodeAddresses=["redis://a:1", 2]), "nodeAddresses: must be a list of texts"),
        (with_section(SENTINEL, sentinelAddresses=None), "sentinelAddresses: is missing"),
        (with_section(SENTINEL, masterName=""), "sentinelServersConfig.masterName: is missing"),
        (single(address="canary:1"), "address: the URL has no scheme"),
        (single(address="redis://canary"), "address: must be redis://host:port or rediss://"),
        (single(address="redis://a:1,b:2"), "address: must be redis://host:port or rediss://"),
        (single(address="redis+cluster://a:1"), "address: must be redis://host:port or rediss://"),
        (single(address="unix:///canary"), "address: must be redis://host:port or rediss://"),
        (single(address="redis://a:1/3"), "address: must end with the port"),
        (single(address="redis://a:1?db=3"), "address: must end with the port"),
        (
            cluster(nodeAddresses=["redis://a:1", "rediss://b:1"]),
            "nodeAddresses: must use rediss:// for all servers or for none",
        ),
        (
            with_section(REPLICATED, nodeAddresses=["redis://:canary@a:1", "redis://b:1"]),
            "nodeAddresses: must have the same user name and password for all servers",
        ),
        # Maps of addresses.
        (cluster(natMap={"canary": "a:1"}), "clusterServersConfig.natMap: must map host:port to"),
        (cluster(natMap={"a:1": "a:canary"}), "clusterServersConfig.natMap: must map host:port to"),
        (cluster(natMap={"a:1": None}), "clusterServersConfig.natMap: must map host:port to"),
        (cluster(natMapper={"class": "com.acme.M"}), "natMapper: must be one of HostPortNatMapper"),
        (cluster(natMapper={"hostsMap": {}}), "natMapper: must name a class"),
        (
            cluster(natMapper="org.redisson.config.HostNatMapper"),
            "natMapper: must contain names and values",
        ),
        (
            cluster(natMapper={"class": "org.redisson.config.HostNatMapper"}),
            "clusterServersConfig.natMapper.hostsMap: is missing",
        ),
        (
            cluster(natMapper={"class": "org.redisson.config.HostNatMapper", "hostsPortMap": {}}),
            "natMapper.hostsPortMap: Redisson has no such setting here; did you mean hostsMap?",
        ),
        (
            cluster(
                natMapper={"class": "org.redisson.config.HostNatMapper", "hostsMap": {"": "a"}}
            ),
            "natMapper.hostsMap: must map hosts to hosts",
        ),
        # What Java would do.
        (SINGLE | {"fairLockWaitTimeout": 5000}, "fairLockWaitTimeout: must be 300000, Redisson"),
        (
            SINGLE | {"nameMapper": {"class": "com.acme.M"}},
            f"nameMapper: {_CLASS}: pass prefix= or",
        ),
        (single(nameMapper={"class": "com.acme.M"}), f"singleServerConfig.nameMapper: {_CLASS}"),
        (SINGLE | {"credentialsResolver": {"class": "R"}}, f"credentialsResolver: {_CLASS}: to"),
        (
            single(credentialsResolver={"class": "org.redisson.config.EntraIdCredentialsResolver"}),
            f"singleServerConfig.credentialsResolver: {_CLASS}",
        ),
        (SINGLE | {"commandMapper": {"class": "com.acme.M"}}, f"commandMapper: {_CLASS}"),
        # TLS.
        (_TLS | {"sslVerificationMode": "NONE"}, "sslVerificationMode: must be STRICT: to check"),
        (single(sslVerificationMode="CA_ONLY"), "singleServerConfig.sslVerificationMode: must be"),
        (_TLS | {"sslVerificationMode": "canary"}, "must be one of NONE, CA_ONLY, STRICT"),
        (
            single(sslEnableEndpointIdentification=False),
            "singleServerConfig.sslEnableEndpointIdentification: must be true: to check less",
        ),
        (_TLS | {"sslCiphers": ["TLS_AES_128_GCM_SHA256"]}, "sslCiphers: has Java's names"),
        (_TLS | {"sslTrustManagerFactory": {"class": "F"}}, "sslTrustManagerFactory: works only"),
        (single(sslKeyManagerFactory={"class": "F"}), "sslKeyManagerFactory: works only in Java"),
        (_TLS | {"sslProtocols": ["TLSv1.1"]}, "sslProtocols: must be from TLSv1.2, TLSv1.3"),
        (
            _TLS | {"sslTruststore": "classpath:canary"},
            "sslTruststore: must be file:/path or a path",
        ),
        (
            _TLS | {"sslTruststore": "file:/no/such/canary"},
            "sslTruststore: cannot read the file",
        ),
    ],
    ids=str,
)
def test_what_is_refused(tmp_path: Path, table: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # compared below, as it is
        read(tmp_path, table)
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'redisson.json'}: ")
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize("name", ["sslTruststore", "sslKeystore"])
@pytest.mark.parametrize("start", [b"\xfe\xed\xfe\xed", b"\x30\x82\x0a", b""])
def test_stores_of_java_are_refused(tmp_path: Path, name: str, start: bytes) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(start)
    with pytest.raises(ValueError, match=f"{name}: must be a PEM file, not a Java keystore"):
        read(tmp_path, _TLS | {name: f"file:{store}"})


def test_options_of_a_file_are_for_its_servers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sharded_pubsub='on' needs a cluster, and this is one"):
        Redisson.from_file(write(tmp_path, SINGLE), sharded_pubsub="on")


@pytest.mark.parametrize(
    "table",
    [
        SINGLE | {"password": "SECRET", "zzz": 1},
        SINGLE | {"password": ["SECRET"]},
        SINGLE | {"lockWatchdogTimeout": "SECRET"},
        SINGLE | {"checkLockSyncedSlaves": "SECRET"},
        SINGLE | {"sslVerificationMode": "SECRET"},
        SINGLE | {"nameMapper": "SECRET"},
        single(password="SECRET", address="canary"),
        single(password="SECRET", database="SECRET"),
        single(address="SECRET"),
        single(address="redis://me:SECRET@a"),
        single(address="redis://me:SECRET@a:1/0"),
        {"singleServerConfig": "SECRET"},
        with_section(SENTINEL, sentinelPassword="SECRET", masterName=None),
        cluster(natMap={"SECRET": "SECRET"}),
        _TLS | {"sslTruststore": "SECRET"},
        _TLS | {"sslKeystorePassword": "SECRET", "sslProtocols": ["SECRET"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["a.json", "a.yaml", "a.toml"])
def test_no_error_tells_a_password(tmp_path: Path, table: dict[str, Any], name: str) -> None:
    """As it is, or broken: then no parser tells it, either."""
    for secret in passwords(6, seed=8):
        path = write(tmp_path, _replaced(table, secret), name)
        for text in (path.read_text("utf-8"), path.read_text("utf-8").replace('"', "", 1)):
            path.write_text(text, "utf-8")
            with pytest.raises((ValueError, ModuleNotFoundError)) as caught:
                Redisson.from_file(path)
            assert not parts_shown(secret, shown(caught.value)), secret


def _replaced(value: Any, secret: str) -> Any:
    match value:
        case dict():
            return {
                _replaced(name, secret): _replaced(each, secret) for name, each in value.items()
            }
        case list():
            return [_replaced(each, secret) for each in value]
        case str():
            return value.replace("SECRET", secret)
    return value
