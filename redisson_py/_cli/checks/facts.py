"""What was read of the servers: values only. Every check can be tested with facts made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from redisson_py._addresses import Address, Topology

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Clock:
    """One answer to TIME.

    Attributes:
        server: What the server said, in seconds since the epoch.
        asked: The time of this machine before the question, in seconds since the epoch.
        answered: The same after the answer.
        asked_at: The moment of the question on a clock that is never stepped.
        answered_at: The same of the answer.
    """

    server: float
    asked: float
    answered: float
    asked_at: float
    answered_at: float

    @property
    def ahead(self) -> tuple[float, float]:
        """By how much the server is ahead of this machine: at least and at most, in seconds."""
        return self.server - self.answered, self.server - self.asked


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the user may not do.

    Attributes:
        rule: The rule of an ACL that would allow it, such as `+publish`.
        message: The server's words.
    """

    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Server:
    """What one server with data said.

    Attributes:
        where: Its address.
        is_replica: Whether it is a replica, as far as known.
        error: Why it could not be asked; empty if it was.
        refused: It answered, but not to us: credentials or TLS are wrong.
        info: The fields of INFO; None if that was refused.
        config: The answers to CONFIG GET; None if that was refused.
        config_refusal: The server's words then.
        user: The name of the user; empty if not known.
        missing: The permissions that this library needs and the user does not have.
        dry_run: Whether ACL DRYRUN said so; else commands were tried.
        loaded: How many of our scripts were loaded.
        load_error: Why one of them was not; empty if all were.
        cached: How many scripts the server kept when the examination was over.
        clocks: Its answers to TIME.
    """

    where: str
    is_replica: bool = False
    error: str = ""
    refused: bool = False
    info: Mapping[str, str] | None = field(default_factory=dict)
    config: Mapping[str, str] | None = field(default_factory=dict)
    config_refusal: str = ""
    user: str = ""
    missing: tuple[Refusal, ...] = ()
    dry_run: bool = False
    loaded: int = 0
    load_error: str = ""
    cached: int | None = None
    clocks: tuple[Clock, ...] = ()

    @property
    def answered(self) -> bool:
        """Whether it could be asked."""
        return not self.error

    def number(self, name: str) -> int | None:
        """Return a number of INFO, None if it is not there."""
        return _number((self.info or {}).get(name))

    def setting(self, name: str) -> str | None:
        """Return a setting; None if it cannot be seen, or the server has no such setting."""
        return None if self.config is None else self.config.get(name)

    def setting_number(self, name: str) -> int | None:
        """Return a setting that is a number; None as for `setting`."""
        return _number(self.setting(name))

    @property
    def name(self) -> str:
        """What kind of server it is."""
        return "Valkey" if "valkey_version" in (self.info or {}) else "Redis"

    @property
    def version(self) -> Version:
        """Its version; empty if not known."""
        info = self.info or {}
        return read_version(info.get("valkey_version", info.get("redis_version", "")))

    @property
    def replicas(self) -> tuple[Mapping[str, str], ...]:
        """What a master says of each of its replicas."""
        info = self.info or {}
        rows = (info.get(f"slave{n}", "") for n in range(self.number("connected_slaves") or 0))
        return tuple(
            dict(word.split("=", 1) for word in row.split(",") if "=" in word) for row in rows
        )

    @property
    def online(self) -> int:
        """How many replicas follow it."""
        return sum(replica.get("state") == "online" for replica in self.replicas)


@dataclass(frozen=True, slots=True)
class Sentinel:
    """What one Sentinel said.

    Attributes:
        where: Its address.
        error: Why it could not be asked, or what it refused; empty if all is well.
        master: The address that it names.
        fields: Its answer to SENTINEL MASTER.
    """

    where: str
    error: str = ""
    master: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        """Return a number of its answer, None if it is not there."""
        return _number(self.fields.get(name))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which nodes serve the slots.

    Attributes:
        error: Why nobody said it; empty if somebody did.
        uncovered: The slots that no master serves: first and last of each range.
        replicas: The addresses of the replicas of each master, by its address. A replica without
            data yet may be left out.
    """

    error: str = ""
    uncovered: tuple[tuple[int, int], ...] = ()
    replicas: Mapping[Address, tuple[Address, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a real lock.

    Attributes:
        error: Why it failed; empty if it did not.
        step: What was done at that moment.
        woken: Whether a message woke the waiter that the lock was handed over to.
        message_error: What the server refused of listening; empty if nothing.
        seconds: How long all of it took.
        pings: How long some PINGs took, in seconds.
    """

    error: str = ""
    step: str = ""
    woken: bool = False
    message_error: str = ""
    seconds: float = 0.0
    pings: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was read.

    Attributes:
        topology: What the user said that the servers are.
        where: The addresses that the user named.
        servers: The servers with data.
        sentinels: The Sentinels, if there are any.
        cluster: The slots, if it is a cluster.
        trial: What became of a real lock; None if it was not tried.
        lease_time: Seconds for which the watchdog keeps locks.
        confirms: How many replicas must confirm a grant.
        acl_options: The options of `redisson-py acl` for these servers.
    """

    topology: Topology
    where: str
    servers: tuple[Server, ...] = ()
    sentinels: tuple[Sentinel, ...] = ()
    cluster: Cluster | None = None
    trial: Trial | None = None
    lease_time: float = 30.0
    confirms: Literal["auto"] | int = 0
    acl_options: str = ""

    @property
    def masters(self) -> tuple[Server, ...]:
        """The servers that answered and are no replicas."""
        return tuple(each for each in self.servers if each.answered and not each.is_replica)


def read_info(text: str) -> dict[str, str]:
    """Return the fields of an answer to INFO."""
    rows = (row.partition(":") for row in text.splitlines() if row[:1] != "#")
    return {name: value.strip() for name, colon, value in rows if colon}


def read_version(text: str) -> Version:
    """Return a version as numbers; empty if it is none."""
    numbers: list[int] = []
    for part in text.split("-")[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _number(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdecimal() else None
