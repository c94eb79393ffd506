"""The options of a client: defaults, checks, and the limits behind them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypedDict

from redisson_py._addresses import AddressMap, AddressMapping, Topology, check_address_map
from redisson_py._forks import no_fork
from redisson_py._keys import NameMapper, Names
from redisson_py._listener import Listener, check_listener
from redisson_py._time import Duration, check_lease_time, check_timeout, milliseconds

OnLost = Literal["cancel", "raise"]
OnReleaseError = Literal["log", "raise"]
ShardedPubSub = Literal["auto", "on", "off"]

_TOPOLOGIES: dict[Topology, str] = {
    "single": "one server",
    "cluster": "a cluster",
    "sentinel": "a master that sentinels name",
    "replicated": "a list of servers one of which is master",
}

#: Commands written and not answered before callers have to wait for room.
MAX_COMMANDS_IN_FLIGHT = 10_000

#: Age in seconds of the newest "busy" that still counts when the time runs out.
LAST_LOOK_SECONDS = 0.5

#: Shortest timeout in seconds, except zero: without time for an answer it is unknown whether the
#: lock is busy.
SHORTEST_WAIT_SECONDS = 0.02

#: How long the owner of an abandoned acquire stays refused. Longer than bytes survive in
#: the buffers of a stopped server or a stalled network; a later duplicate ends with its lease.
TOMBSTONE = 60.0

#: A request is repeated for no longer than this: the server must not have forgotten it by then.
LONGEST_COMMAND_SECONDS = TOMBSTONE / 2

#: Shortest `idle_lifetime`: longer than the interval at which waiters ask again.
SHORTEST_IDLE_SECONDS = 10.0


def grace(late: float) -> float:
    """Return seconds to wait for an answer when a deadline was noticed this late.

    The event loop was blocked past the deadline. It waits as long again, at most half a second: on
    a busy machine the server may have had no time either.
    """
    return min(max(late, SHORTEST_WAIT_SECONDS), LAST_LOOK_SECONDS)


class RedissonOptions(TypedDict, total=False):
    """The options of a client: keyword arguments of `Redisson`, `from_url` and `from_file`.

    Attributes:
        lease_time: Seconds for which the watchdog keeps a lock; it renews it every third of that.
            Shorter: the lock of a crashed process is free sooner. Longer: locks survive longer
            outages, of up to two thirds of it. Default: 30
        prefix: Text that is put before every name. Default: ""
        name_mapper: A function from a name to its Redis key; instead of `prefix`. Default: None
        on_lost: What a block does when its lease is lost: `"cancel"` cancels its body, `"raise"`
            lets the body run on and raises `LeaseLostError` at its end. Default: "cancel"
        turn: Seconds for which a contended lock is passed among this client's tasks before other
            processes get a chance; 0 never passes it. Default: 0.01
        client_name: Name of the connection, which `inspect` and CLIENT LIST show. Default: None
        sharded_pubsub: For clusters: `"auto"` uses sharded pub/sub where the cluster has it, as
            Redisson does; `"on"` and `"off"` force it, and Redisson needs the same setting.
            Default: "auto"
        sync_replicas: How many replicas must confirm a grant or a renewal before it counts. If too
            few do, `ReplicationError` is raised and nothing is held. `"auto"`: one if the master
            has any, and none for a single server. Releases, latches and barriers are not confirmed.
            Only a grant that all replicas have survives whichever of them is promoted. Default:
            "auto"
        sync_timeout: Seconds to wait for replicas to confirm. Default: 1
        address_map: For clusters and Sentinel: maps the address that a node announces to the one to
            use. A mapping from `"host:port"` or `(host, port)` to either, or a function that takes
            host and port and returns both. Without it, a `RedisCluster`'s own `address_remap` is
            used. Default: None
        command_timeout: Seconds for which a call without a timeout of its own waits for a server
            that does not answer; at most 30. Default: 5
        acquire_timeout: The `timeout` of every acquire that has none; None waits without end.
            Default: None
        on_release_error: What a block does when its release gets no answer: `"log"` logs a warning
            and ends normally, because the work was protected; `"raise"` raises
            `ReleaseFailedError`. Default: "log"
        idle_lifetime: Seconds after the last lease for which Redis keeps a semaphore, and the
            counter of a fenced lock; None keeps them, as Redisson does. At least 10, and more than
            `lease_time`. Set the same `idle_lifetime` on every client that uses the name, and none
            for names that Redisson uses too. Afterwards a semaphore has forgotten its number of
            permits, and tokens grow only if the server's clock was not stepped back: see "What
            stays in Redis" in docs/safety.md. Default: None
        listener: A `Listener`, which is called with acquisitions, waits, losses and outages.
            Default: None
    """

    lease_time: Duration
    prefix: str
    name_mapper: NameMapper | None
    on_lost: OnLost
    sharded_pubsub: ShardedPubSub
    sync_replicas: Literal["auto"] | int
    sync_timeout: Duration
    turn: Duration
    client_name: str | None
    command_timeout: Duration
    acquire_timeout: Duration | None
    on_release_error: OnReleaseError
    idle_lifetime: Duration | None
    listener: Listener | None
    address_map: AddressMapping | None


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of one client: see `RedissonOptions`.

    Attributes:
        idle_ms: Milliseconds of `idle_lifetime`; 0 keeps counters.
    """

    names: Names
    lease_time: float
    on_lost: OnLost
    turn: float
    client_name: str | None
    command_timeout: float
    acquire_timeout: float | None
    on_release_error: OnReleaseError
    idle_ms: int = 0
    listener: Listener | None = None
    sharded_pubsub: ShardedPubSub = "auto"
    sync_replicas: Literal["auto"] | int = "auto"
    sync_timeout: float = 1.0
    address_map: AddressMap | None = None

    @property
    def reply_timeout(self) -> float:
        """Seconds without an answer after which a connection counts as dead.

        A PING is sent after the same time without a reply, so a dead connection is noticed within a
        third of the lease, or 0.2 s if that is longer.
        """
        return min(max(self.lease_time / 6, 0.1), 5.0)

    def reply_timeout_where(self, fails_over: bool) -> float:
        """Return `reply_timeout`, or less where another server takes over from a silent one."""
        return min(self.reply_timeout, 1.0) if fails_over else self.reply_timeout

    def replicas_where(self, topology: Topology) -> Literal["auto"] | int:
        """Return how many replicas must confirm; at one address "auto" is none."""
        if topology == "single" and self.sync_replicas == "auto":
            return 0
        return self.sync_replicas

    def check_for(self, topology: Topology) -> None:
        """Refuse options that servers of this topology do not support.

        Raises:
            ValueError: An option needs another topology.
        """
        if self.sharded_pubsub == "on" and topology != "cluster":
            raise ValueError(
                f"sharded_pubsub='on' needs a cluster, and this is {_TOPOLOGIES[topology]}"
            )
        if self.address_map is not None and topology not in ("cluster", "sentinel"):
            raise ValueError(
                "address_map is for addresses that a cluster or sentinels announce, and this is"
                f" {_TOPOLOGIES[topology]}: give its address as it can be reached"
            )


def check_options(
    *,
    lease_time: Duration = 30.0,
    prefix: str = "",
    name_mapper: NameMapper | None = None,
    on_lost: OnLost = "cancel",
    sharded_pubsub: ShardedPubSub = "auto",
    sync_replicas: Literal["auto"] | int = "auto",
    sync_timeout: Duration = 1.0,
    turn: Duration = 0.01,
    client_name: str | None = None,
    command_timeout: Duration = 5.0,
    acquire_timeout: Duration | None = None,
    on_release_error: OnReleaseError = "log",
    idle_lifetime: Duration | None = None,
    listener: Listener | None = None,
    address_map: AddressMapping | None = None,
    **unknown: object,
) -> Options:
    """Return the options, checked.

    Raises:
        TypeError: There is no such option, or it has the wrong type.
        ValueError: An option is out of range, or two of them exclude each other.
    """
    if unknown:
        raise TypeError(unknown_option(next(iter(unknown)), RedissonOptions.__annotations__))
    if on_lost not in ("cancel", "raise"):
        raise ValueError(f"on_lost must be 'cancel' or 'raise', not {on_lost!r}")
    if on_release_error not in ("log", "raise"):
        raise ValueError(f"on_release_error must be 'log' or 'raise', not {on_release_error!r}")
    if sharded_pubsub not in ("auto", "on", "off"):
        raise ValueError(f"sharded_pubsub must be 'auto', 'on' or 'off', not {sharded_pubsub!r}")
    if sync_replicas != "auto":
        _check_replicas(sync_replicas)
    if client_name is not None and not isinstance(client_name, str):
        raise TypeError(f"client_name must be str, not {type(client_name).__name__}")
    if client_name is not None and not all("!" <= each <= "~" for each in client_name):
        raise ValueError("client_name must be ASCII without spaces: Redis takes nothing else")
    lease = check_lease_time(lease_time)
    return Options(
        names=Names(prefix, name_mapper),
        lease_time=lease,
        on_lost=on_lost,
        turn=_passing_seconds(turn),
        client_name=client_name,
        command_timeout=check_command_timeout(command_timeout),
        acquire_timeout=check_timeout(acquire_timeout, "acquire_timeout"),
        on_release_error=on_release_error,
        idle_ms=_check_idle(idle_lifetime, lease),
        listener=None if listener is None else check_listener(listener),
        sharded_pubsub=sharded_pubsub,
        sync_replicas=sync_replicas,
        sync_timeout=check_lease_time(sync_timeout, "sync_timeout"),
        address_map=check_address_map(address_map),
    )


#: What others call some of the options.
_RENAMED = {
    "blocking_timeout": "acquire_timeout",
    "expire": "lease_time",
    "lockWatchdogTimeout": "lease_time",
    "name": "client_name",
    "socket_timeout": "command_timeout",
    "timeout": "acquire_timeout",
    "ttl": "lease_time",
}


def unknown_option(name: str, options: Iterable[str]) -> str:
    """Return the text of the error for an option that does not exist."""
    with no_fork():
        from difflib import get_close_matches

    known = sorted(options)
    other = _RENAMED.get(name)
    close = [other] if other in known else get_close_matches(name, known, n=1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    return f"there is no option {name!r}{meant}; the options are {', '.join(known)}"


def _check_idle(idle_lifetime: Duration | None, lease_time: float) -> int:
    if idle_lifetime is None:
        return 0
    seconds = check_lease_time(idle_lifetime, "idle_lifetime")
    if seconds <= lease_time or seconds < SHORTEST_IDLE_SECONDS:
        raise ValueError(
            f"idle_lifetime must be longer than lease_time ({lease_time:g} s), and at least"
            f" {SHORTEST_IDLE_SECONDS:g} s, not {seconds:g} s"
        )
    return milliseconds(seconds)


def _check_replicas(count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError("sync_replicas must be 'auto' or a number of replicas")
    if count < 0:
        raise ValueError(f"sync_replicas must not be negative, not {count}")


def check_command_timeout(value: Duration, name: str = "command_timeout") -> float:
    """Return a command timeout in seconds.

    Raises:
        TypeError: It is not a number or a timedelta.
        ValueError: It is no positive, finite time, or longer than `LONGEST_COMMAND_SECONDS`.
    """
    seconds = check_lease_time(value, name)
    if seconds > LONGEST_COMMAND_SECONDS:
        raise ValueError(
            f"{name} must be at most {LONGEST_COMMAND_SECONDS:g} seconds, because the server"
            f" remembers a request that may be repeated for {TOMBSTONE:g}, not {seconds:g}"
        )
    return seconds


def _passing_seconds(given: Duration) -> float:
    seconds = check_timeout(given, "turn")
    if seconds is None:
        raise ValueError("turn must be a finite number of seconds; 0 switches passing off")
    return seconds
