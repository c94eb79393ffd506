"""What a configuration file of Redisson means here: which servers, and which options.

Each of Redisson's names is used, known to have no effect here, or refused because ignoring it would
be wrong. Errors name the file and the key, never a value.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from redisson_py._addresses import Address, AddressMap, Topology, read_address, write_address
from redisson_py._redis.config.file import CLASS, Part, read_file
from redisson_py._redis.config.names import (
    IN_SECTION,
    SECTIONS,
    TAKEN_AT_TOP,
    WITHOUT_EFFECT_AT_TOP,
)
from redisson_py._redis.url import Kind, Target, read_url
from redisson_py._time import LONGEST_LEASE_SECONDS

__all__ = ["read_config"]

log = logging.getLogger("redisson_py")

_MOST_MS = int(LONGEST_LEASE_SECONDS * 1000)
_TOPOLOGIES: dict[str, Topology] = {
    "singleServerConfig": "single",
    "masterSlaveServersConfig": "single",
    "sentinelServersConfig": "sentinel",
    "clusterServersConfig": "cluster",
    "replicatedServersConfig": "replicated",
}
_ADDRESSES = {
    "singleServerConfig": "address",
    "masterSlaveServersConfig": "masterAddress",
    "sentinelServersConfig": "sentinelAddresses",
    "clusterServersConfig": "nodeAddresses",
    "replicatedServersConfig": "nodeAddresses",
}
_MODES = {"AUTO": "auto", "ON": "on", "OFF": "off"}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
#: Classes of Redisson that do nothing of their own.
_DEFAULTS = ("DefaultNameMapper", "DefaultCredentialsResolver", "DefaultCommandMapper")
#: Milliseconds for which a fair lock's waiter counts as alive: Redisson's default, always ours.
_FAIR_LOCK_WAIT_MS = 300_000
_ON_PURPOSE = "create a redis-py client that does, and pass it to Redisson"


def read_config(
    path: str | os.PathLike[str], options: Collection[str]
) -> tuple[Target, dict[str, Any]]:
    """Return the servers and the options of a configuration file.

    Args:
        path: The file.
        options: The names of options that the caller gives. They take precedence, so a name or
            address mapper of Java in the file is no error then.

    Raises:
        TypeError: The path is neither str nor a path.
        OSError: The file cannot be read.
        ModuleNotFoundError: It is YAML, and PyYAML is not installed.
        ValueError: It is malformed, or asks for what is not offered here.
    """
    top = Part(str(path), "", read_file(path))
    ignored = top.check_names({*TAKEN_AT_TOP, *SECTIONS}, WITHOUT_EFFECT_AT_TOP)
    found = [name for name in SECTIONS if top.has(name)]
    if len(found) != 1:
        if not found:
            raise top.error("", f"the file needs one of {', '.join(SECTIONS)}, and has none")
        raise top.error("", f"the file must have only one of {', '.join(found)}")
    section = top.table(found[0])
    assert section is not None
    ignored += section.check_names(*IN_SECTION[found[0]])
    _refuse(top, section, options)
    taken = _options(top, section)
    function = None if "address_map" in options else _nat_mapper(section)
    topology = _TOPOLOGIES[found[0]]
    if function is not None and topology != "replicated":
        taken["address_map"] = AddressMap(function)
    target = _target(top, section, _ADDRESSES[found[0]], topology, function)
    if ignored:
        log.debug("%s: ignored settings: %s", path, ", ".join(dict.fromkeys(ignored)))
    return target, taken


def _options(top: Part, section: Part) -> dict[str, Any]:
    """Return the options that a file sets."""
    taken: dict[str, Any] = {}
    for name, option in (
        ("lockWatchdogTimeout", "lease_time"),
        ("slavesSyncTimeout", "sync_timeout"),
    ):
        milliseconds = top.whole(name, 1, _MOST_MS)
        if milliseconds is not None:
            taken[option] = milliseconds / 1000
    checked = top.switch("checkLockSyncedSlaves")
    if checked is not None:
        taken["sync_replicas"] = "auto" if checked else 0
    mode = section.one_of("shardedSubscriptionMode", _MODES)
    if mode is not None:
        taken["sharded_pubsub"] = _MODES[mode]
    client_name = _text(top, section, "clientName")
    if client_name is not None:
        taken["client_name"] = client_name
    return taken


def _refuse(top: Part, section: Part, options: Collection[str]) -> None:
    """Refuse settings that must not be ignored."""
    if top.whole("fairLockWaitTimeout", 0, _MOST_MS) not in (None, _FAIR_LOCK_WAIT_MS):
        raise top.error(
            "fairLockWaitTimeout",
            f"must be {_FAIR_LOCK_WAIT_MS}, Redisson's default: fair queues rely on it",
        )
    for part in (top, section):
        if not {"prefix", "name_mapper"} & {*options}:
            _refuse_class(part, "nameMapper", "pass prefix= or name_mapper= in Python")
        _refuse_class(part, "credentialsResolver", f"to resolve credentials, {_ON_PURPOSE}")
        _refuse_class(part, "commandMapper", "commands cannot be renamed here")
        for name in ("sslTrustManagerFactory", "sslKeyManagerFactory"):
            if part.has(name):
                raise part.error(name, f"works only in Java: to customize TLS, {_ON_PURPOSE}")
        if part.has("sslCiphers"):
            raise part.error("sslCiphers", f"has Java's names: to choose ciphers, {_ON_PURPOSE}")
        unchecked = part.one_of("sslVerificationMode", ("NONE", "CA_ONLY", "STRICT"))
        if unchecked not in (None, "STRICT"):
            raise part.error("sslVerificationMode", f"must be STRICT: to check less, {_ON_PURPOSE}")
        if part.switch("sslEnableEndpointIdentification") is False:
            raise part.error(
                "sslEnableEndpointIdentification", f"must be true: to check less, {_ON_PURPOSE}"
            )


def _refuse_class(part: Part, name: str, instead: str) -> None:
    found = part.java_class(name)
    if found is not None and found not in _DEFAULTS:
        raise part.error(name, f"cannot run a Java class: {instead}")


def _either(top: Part, section: Part, read: Callable[[Part], Any]) -> Any:
    """Return what the top says, else what the section says, as Redisson does."""
    found = [read(part) for part in (top, section)]
    return found[0] if found[0] is not None else found[1]


def _text(top: Part, section: Part, name: str) -> str | None:
    found: str | None = _either(top, section, lambda part: part.text(name))
    return found


# The servers.


def _target(
    top: Part,
    section: Part,
    name: str,
    topology: Topology,
    function: Callable[[str, int], Address] | None,
) -> Target:
    addresses, kind, user = _addresses(section, name)
    if function is not None and topology == "replicated":
        # Redisson maps these too; here no server announces other addresses.
        addresses = [function(*address) for address in addresses]
    each_once = tuple(dict.fromkeys(addresses))
    shared = _tls(top, section) if kind == "tls" else {}
    shared |= {"host": addresses[0][0], "port": addresses[0][1]}
    settings: dict[str, Any] = {}
    for each in ("username", "password"):
        value = _text(top, section, each)
        if value is not None:
            settings[each] = value
    database = _either(top, section, lambda part: part.whole("database", 0, 2**31 - 1))
    if database is not None:
        settings["db"] = database
    if topology != "sentinel":
        return Target(topology, kind, settings | user | shared, each_once)
    service = section.text("masterName")
    if service is None:
        raise section.error("masterName", "is missing")
    sentinel: dict[str, Any] = {}
    for own, theirs in (("username", "sentinelUsername"), ("password", "sentinelPassword")):
        value = section.text(theirs)
        if value is not None:
            sentinel[own] = value
    return Target(
        topology,
        kind,
        settings | shared,
        each_once,
        service=service,
        sentinel_kind=kind,
        # A user in the address of a sentinel is the sentinel's.
        sentinel=sentinel | user | shared,
    )


def _addresses(section: Part, name: str) -> tuple[list[Address], Kind, dict[str, Any]]:
    """Return addresses, how to connect, and the user that they name."""
    if name in ("address", "masterAddress"):
        text = section.text(name)
        texts = [] if text is None else [text]
    else:
        texts = section.texts(name)
    if not texts:
        raise section.error(name, "is missing")
    targets: list[Target] = []
    for text in texts:
        found = _read_url(text)
        if isinstance(found, str):
            raise section.error(name, found)
        if found.topology != "single" or found.kind == "unix" or "port" not in found.settings:
            raise section.error(name, "must be redis://host:port or rediss://host:port")
        if found.settings.keys() - {"host", "port", "username", "password"}:
            raise section.error(
                name, "must end with the port: set the database and other settings by name"
            )
        targets.append(found)
    users = [
        {each: value for each, value in found.settings.items() if each in ("username", "password")}
        for found in targets
    ]
    if any(each.kind != targets[0].kind for each in targets):
        raise section.error(name, "must use rediss:// for all servers or for none")
    if any(user != users[0] for user in users):
        raise section.error(name, "must have the same user name and password for all servers")
    return [each.addresses[0] for each in targets], targets[0].kind, users[0]


def _read_url(text: str) -> Target | str:
    """Return what an address says, or what is wrong with it, quoting no part of the address."""
    try:
        return read_url(text)
    except ValueError as error:
        return str(error)


def _nat_mapper(section: Part) -> Callable[[str, int], Address] | None:
    """Return what `natMapper` does, or the older `natMap`."""
    ports = section.table("natMap")
    if ports is not None:
        return _of_ports(ports)
    found = section.java_class("natMapper")
    if found is None or found == "DefaultNatMapper":
        return None
    mapper = section.table("natMapper")
    names = {"HostPortNatMapper": "hostsPortMap", "HostNatMapper": "hostsMap"}
    if mapper is None or found not in names:
        raise section.error("natMapper", f"must be one of {', '.join(names)}")
    mapper.check_names({CLASS, names[found]}, ())
    mapped = mapper.table(names[found])
    if mapped is None:
        raise mapper.error(names[found], "is missing (Redisson's toYAML omits it)")
    return _of_ports(mapped) if found == "HostPortNatMapper" else _of_hosts(mapped)


def _of_ports(part: Part) -> Callable[[str, int], Address]:
    known = {
        _host_and_port(part, key): _host_and_port(part, each) for key, each in part.values.items()
    }
    return lambda host, port: known.get((host, port), (host, port))


def _of_hosts(part: Part) -> Callable[[str, int], Address]:
    hosts = {_host(part, key): _host(part, value) for key, value in part.values.items()}
    return lambda host, port: (hosts.get(host, host), port)


def _host_and_port(part: Part, text: object) -> Address:
    host, _, port = str(text).rpartition(":")
    found = read_address(f"{write_address(host.strip('[]'), 1)[:-2]}:{port}")
    if found is None:
        raise part.error("", "must map host:port to host:port")
    return found


def _host(part: Part, text: object) -> str:
    found = read_address(write_address(str(text).strip("[]"), 1))
    if found is None:
        raise part.error("", "must map hosts to hosts")
    return found[0]


# TLS.


def _tls(top: Part, section: Part) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    truststore = _either(top, section, lambda part: _pem(part, "sslTruststore"))
    if truststore is not None:
        settings["ssl_ca_certs"] = truststore
    keystore = _either(top, section, lambda part: _pem(part, "sslKeystore"))
    if keystore is not None:
        settings["ssl_certfile"] = settings["ssl_keyfile"] = keystore
        password = _text(top, section, "sslKeystorePassword")
        if password is not None:
            settings["ssl_password"] = password
    lowest = _either(top, section, _lowest_version)
    if lowest is not None:
        settings["ssl_min_version"] = lowest
    return settings


def _lowest_version(part: Part) -> ssl.TLSVersion | None:
    names = part.texts("sslProtocols")
    if not names:
        return None
    if not _VERSIONS.keys() >= {*names}:
        raise part.error("sslProtocols", f"must be from {', '.join(_VERSIONS)}")
    return min(_VERSIONS[name] for name in names)


def _pem(part: Part, name: str) -> str | None:
    """Return the path of a file with certificates, given as a `file:` URL or as a path."""
    text = part.text(name)
    if text is None:
        return None
    scheme, colon, _ = text.partition(":")
    if colon and scheme.lower() != "file":
        raise part.error(name, "must be file:/path or a path")
    path = Path(unquote(urlsplit(text).path) if colon else text)
    try:
        start = path.read_bytes()
    except (OSError, ValueError):
        start = None
    if start is None:
        raise part.error(name, "cannot read the file")
    if b"-----BEGIN " not in start:
        raise part.error(name, "must be a PEM file, not a Java keystore (JKS, PKCS12)")
    return str(path)
