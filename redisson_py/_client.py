"""The client: its connections, its watchdog, and the synchronizers that it makes."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast, final

from redisson_py._arguments import F, explained
from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.bus import Bus
from redisson_py._engine.client_life import ClientLife
from redisson_py._engine.context import Recent
from redisson_py._engine.handed_over import HandedOver
from redisson_py._engine.hold import Lease
from redisson_py._engine.wakeups import Table
from redisson_py._engine.watchdog import Watchdog
from redisson_py._forks import no_fork
from redisson_py._keys import Name
from redisson_py._listener import Teller
from redisson_py._options import Options, RedissonOptions, check_command_timeout, check_options
from redisson_py._owner import Owners
from redisson_py._redis.connections import RedisConnections
from redisson_py._redis.context import RedisContext
from redisson_py._redis.scripts.source import script_root
from redisson_py._statistics import ClientStatistics, Counts
from redisson_py._time import Duration, check_timeout
from redisson_py.barriers.barrier import CyclicBarrier
from redisson_py.barriers.latch import CountDownLatch
from redisson_py.composite.multi_lock import MultiLock
from redisson_py.composite.red_lock import RedLock
from redisson_py.locks.election import Election
from redisson_py.locks.election_in_redis import ElectionInRedis
from redisson_py.locks.lock import FairLock, FencedLock, RLock, ServerLock, adopt
from redisson_py.locks.lock_like import LockLike
from redisson_py.locks.once import Once
from redisson_py.locks.read_write_lock import Prefer, ReadWriteLock
from redisson_py.locks.redis_once import RedisOnce
from redisson_py.rates.rate_limiter import RateLimiter
from redisson_py.semaphores.permit_expirable_semaphore import PermitExpirableSemaphore
from redisson_py.semaphores.semaphore import Semaphore

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster

    from redisson_py._redis.redis_py import Servers


@contextmanager
def _loading() -> Generator[None]:
    """Import inside the block what a client needs and the package itself does not.

    It is not imported before there is a client: redis-py is most of what an import costs. Nor
    later: then a fork would not wait for it.
    """
    with no_fork():
        import_module("encodings.idna")
        script_root()
        yield


def context_of(client: Redisson) -> RedisContext:
    """Return the parts of a client, for what asks its servers by itself, as the command line."""
    return client._context


def where_of(client: Redisson) -> str:
    """Return the addresses that the user gave a client, without any secret."""
    return client._where


def _keeping(make: F) -> F:
    """Have a method of the client return the lock that it made for the same name recently.

    A lock object serves any number of tasks, and `async with client.get_lock(name)` would make one
    each time. A call with more arguments than a name makes a new one.
    """

    @wraps(make)
    def get(self: Redisson, name: Name, *more: Any, **given: Any) -> Any:
        if more or given or type(name) not in self._kept_names:
            return explaining(self, name, *more, **given)
        kept = self._kept[make]
        try:
            return kept[name]
        except KeyError:
            return kept.made(name, lambda: make(self, name))

    explaining = explained(make)
    return cast("F", get)


@final
class Redisson(AsyncOnly):
    """A client: makes locks and keeps what they hold.

    Use it as `async with Redisson.from_url(...) as client`, or construct it anywhere (nothing
    connects until first use) and call `aclose()` in the end; `async with` opens it again, with a
    new id. One client serves any number of tasks and names. It has one connection to each server
    that it uses: the one server, the master, or nodes of a cluster. With `sync_replicas` a second
    connection carries grants; with Sentinel a small one leads to each Sentinel. See
    docs/topologies.md.

    It belongs to the event loop of its first use. When that loop is closed, the next use moves the
    client to the running loop (a second `asyncio.run`), if it holds nothing and no task waits. A
    client that has not connected yet may be used after a fork. Its locks go with it.

    Background work runs with the context variables of the code that created the client:
    connecting, `address_map`, a credential provider, and most log records of these.

    Args:
        client: A `redis.asyncio.Redis` (also what `Sentinel.master_for` returns) or `RedisCluster`.
            Its addresses, credentials and TLS settings are used; connections are our own, and
            `aclose` leaves the client open. Its `socket_connect_timeout` bounds each attempt to
            connect, unless it is redis-py's default. Its `socket_timeout` is ignored, because
            redis-py gives every client one: see `command_timeout`. The client's pool, retry,
            health-check and decoding settings are ignored.
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

    Raises:
        TypeError: `client` is no asyncio client of redis-py, an option has the wrong type, or
            there is no such option.
        ValueError: An option is out of range or for other servers than these, or the client reads
            from replicas, or connects in a way of its own.
    """

    def __init__(self, client: Redis | RedisCluster, **options: Unpack[RedissonOptions]) -> None:
        checked = check_options(**options)
        with _loading():
            from redisson_py._redis.redis_py import servers_from_client

            servers = servers_from_client(client, checked.client_name)
        if servers.address_map is not None and checked.address_map is None:
            checked = replace(checked, address_map=servers.address_map)
        self._build(servers, checked)

    @classmethod
    def from_url(cls, url: str, **options: Unpack[RedissonOptions]) -> Self:
        """Return a client for the servers that `url` names; nothing connects yet.

        - One server: `redis://user:password@host:port/database`, `rediss://` (TLS, with the
          certificate and the host's name checked), or `unix:///path`.
        - A cluster: `redis+cluster://host1:port1,host2:port2`, `rediss+cluster://`.
        - A master that Sentinels know: `redis+sentinel://host1,host2/service/database`; with
          `rediss+sentinel://` servers and Sentinels use TLS. User name and password are for the
          servers, `sentinel_username` and `sentinel_password` for the Sentinels; `sentinel_ssl`
          says whether the Sentinels use TLS, if they differ from the servers.
        - Several servers, one of which is master: `redis://host1,host2`, `rediss://`.

        You may write `valkey` for `redis` everywhere. Put an IPv6 address in brackets. The other
        query arguments are those of redis-py. `socket_connect_timeout` limits each attempt to
        connect; `socket_timeout` is the `command_timeout` unless that option is given. The
        arguments for redis-py's pool, retries, health checks and decoding (`max_connections`,
        `timeout`, `retry_on_timeout`, `health_check_interval`, `protocol`, `decode_responses`,
        `encoding`, `encoding_errors`, `legacy_responses`) are accepted and ignored. For the options
        see the class.

        No error quotes the URL. A URL cannot turn off TLS checks: pass a client for that.

        Raises:
            TypeError: The URL is not a str, an option has the wrong type, or does not exist.
            ValueError: The URL or an option is not usable.
        """
        checked = check_options(**options)
        with _loading():
            from redisson_py._redis.redis_py import servers_from_url

            servers = servers_from_url(url, checked.client_name)
        if servers.command_timeout is not None and "command_timeout" not in options:
            seconds = check_command_timeout(servers.command_timeout, "socket_timeout in the URL")
            checked = replace(checked, command_timeout=seconds)
        self = cls.__new__(cls)
        self._build(servers, checked)
        return self

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **options: Unpack[RedissonOptions]) -> Self:
        """Return a client configured by a configuration file of Redisson; nothing connects yet.

        `.yaml` and `.yml` need PyYAML (the extra `yaml`); `.toml` and `.json` use the same keys.
        The file gives the servers, in its one `...ServersConfig`, with user, password, database,
        client name and TLS (a truststore must be PEM). `natMapper` becomes `address_map`,
        `lockWatchdogTimeout` `lease_time`, `slavesSyncTimeout` `sync_timeout`,
        `checkLockSyncedSlaves` `sync_replicas`, and `shardedSubscriptionMode` `sharded_pubsub`.
        Java's codecs, threads, pools, retries and timeouts are ignored, and logged at DEBUG.
        `${NAME}` and `${NAME:-default}` in values are replaced by environment variables.

        Args:
            path: The file.
            options: See the class; they override the file.

        Raises:
            TypeError: The path is neither str nor a path, an option has the wrong type, or does
                not exist.
            ValueError: The file is malformed, or asks for something that is not supported; the
                error names the file and the key, never a value.
            OSError: The file cannot be read.
            ModuleNotFoundError: The file is YAML, and PyYAML is not installed.
        """
        from redisson_py._redis.config.read import read_config

        target, taken = read_config(path, options)
        taken.update(options)
        checked = check_options(**taken)
        with _loading():
            from redisson_py._redis.redis_py import servers_from_target

            servers = servers_from_target(target, checked.client_name)
        self = cls.__new__(cls)
        self._build(servers, checked)
        return self

    def _build(self, servers: Servers, options: Options) -> None:
        options.check_for(servers.topology)
        options.names.in_cluster = servers.topology == "cluster"
        self._where = servers.where
        teller = None if options.listener is None else Teller(options.listener)
        owners, counts, table, life = Owners(), Counts(), Table(), ClientLife()
        self._life = life
        connections = RedisConnections(servers, options, life, table, owners, counts, teller)
        self._router, self._executor = connections.router, connections.executor
        self._watchdog = Watchdog(self._executor, options.lease_time, connections.describe, counts)
        connections.subscriptions.attach(self._router, self._watchdog)
        self._context = RedisContext(
            options,
            self._executor,
            Bus(table, connections.subscriptions),
            self._watchdog,
            owners,
            life.check,
            connections.describe,
            servers.database,
            counts,
            teller,
        )
        life.attach(self._context, connections)
        #: The types of the names whose locks are kept.
        self._kept_names = options.names.fixed
        #: By the method that makes them, the locks used recently.
        self._kept: defaultdict[object, Recent[Name, Any]] = defaultdict(Recent)

    def __repr__(self) -> str:
        state = "closed" if self._life.closed else f"{len(self._watchdog.holds)} held"
        return f"<Redisson {self._where}: {state}>"

    @property
    def id(self) -> str:
        """The client's id. It is the first part of every owner of this client."""
        return self._context.owners.client_id

    async def __aenter__(self) -> Self:
        await self._life.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @explained
    async def ping(self, *, timeout: Duration | None = None) -> None:
        """Return when Redis has answered. Cancelling is harmless.

        Args:
            timeout: Seconds to wait, including connecting; 0 fails with the first failed attempt to
                connect. Default: `command_timeout`. In a health check, use less than the check's
                own timeout.

        Raises:
            ConnectionLostError: Redis did not answer in time.
            BackendError: Redis refused this client.
            ClientClosedError: The client was closed.
            ValueError: The timeout is negative or NaN; nothing was sent.
        """
        seconds = check_timeout(timeout)
        self._life.check()
        call = self._executor.command(b"", "PING", seconds=seconds or None)
        call.fails_fast = seconds == 0
        await self._executor.answer(call)

    @_keeping
    def get_lock(self, name: Name, *, reentrant: bool = True) -> RLock:
        """Return the reentrant lock `name`; with `reentrant=False`, one that refuses re-entry.

        Raises:
            TypeError: The name is neither str nor bytes.
            ValueError: The name is empty or longer than 4 KiB.
        """
        return RLock(self._context, name, reentrant=reentrant)

    @_keeping
    def get_fenced_lock(self, name: Name) -> FencedLock:
        """Return the lock `name` whose leases carry a fencing token; errors as for `get_lock`."""
        return FencedLock(self._context, name)

    @_keeping
    def get_fair_lock(self, name: Name, *, reentrant: bool = True) -> FairLock:
        """Return the lock `name` that is granted in order of arrival across processes.

        Errors as for `get_lock`.
        """
        return FairLock(self._context, name, reentrant=reentrant)

    @_keeping
    def get_read_write_lock(self, name: Name, *, prefer: Prefer = "readers") -> ReadWriteLock:
        """Return the lock `name` for many readers or one writer; errors as for `get_lock`.

        With `prefer="writers"` a waiting writer keeps new readers out; see `ReadWriteLock`.
        """
        return ReadWriteLock(self._context, name, prefer=prefer)

    @explained
    def get_once(self, name: Name, *, keep: Duration = 86_400.0) -> Once:
        """Return what carries `name` out once, and remembers that it is done for `keep` seconds.

        Args:
            name: The name of the work, different for each thing that is done: `"pay:42"`.
            keep: Seconds for which the server remembers that it is done, and its result; from a
                millisecond to ten years. The one that completes it decides. Default: one day

        Raises:
            TypeError: The name is neither str nor bytes, or `keep` is no time.
            ValueError: The name is empty or longer than 4 KiB, or `keep` is out of range.
        """
        return RedisOnce(self._context, name, keep)

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name` of a leader with a value; errors as for `get_lock`."""
        return Election(self._context, name, partial(ElectionInRedis, self._context))

    @explained
    def get_multi_lock(self, *locks: LockLike) -> MultiLock:
        """Return a lock that holds several locks, of this client or others: all or none.

        Raises:
            TypeError: An argument is not a lock.
            ValueError: There is no argument, or a lock is given twice.
        """
        return MultiLock(*locks)

    @explained
    def get_red_lock(self, *locks: ServerLock) -> RedLock:
        """Return a lock on several independent servers: held once most of them granted it.

        Args:
            locks: The same lock on each server, each made by the client of that server.

        Raises:
            TypeError: An argument is not a lock of a single server.
            ValueError: There is no argument, or two are of one client.
        """
        return RedLock(*locks)

    @explained
    def get_semaphore(self, name: Name, permits: int | None = None) -> Semaphore:
        """Return the semaphore `name`; with `permits`, the first use creates it if it is missing.

        An existing semaphore keeps its number of permits: if it has others, one warning says so.

        Raises:
            TypeError: The name is neither str nor bytes, or `permits` is not an int.
            ValueError: The name is empty or longer than 4 KiB, or `permits` is negative.
        """
        return Semaphore(self._context, name, permits)

    @explained
    def get_permit_expirable_semaphore(
        self, name: Name, permits: int | None = None
    ) -> PermitExpirableSemaphore:
        """Return the semaphore `name` whose permits each have an id and a lease.

        Arguments and errors as for `get_semaphore`.
        """
        return PermitExpirableSemaphore(self._context, name, permits)

    @explained
    def get_latch(self, name: Name, count: int | None = None) -> CountDownLatch:
        """Return the latch `name`; with `count`, 1 or more, the first use sets it if it is unset.

        Without a count nobody waits at a latch that was never set: `wait()` returns at once. Use
        `get_latch("job", 3)`, or call `try_set_count(3)` before. A latch that has opened is unset:
        a job that has a `count` and is delivered twice sets it again. See `CountDownLatch` for what
        to do instead.

        Raises:
            TypeError: The name is neither str nor bytes, or `count` is not an int.
            ValueError: The name is empty or longer than 4 KiB, or `count` is not positive.
        """
        return CountDownLatch(self._context, name, count)

    @explained
    def get_barrier(self, name: Name, parties: int) -> CyclicBarrier:
        """Return the barrier `name` for a number of parties, the same for all of them.

        Raises:
            TypeError: The name is neither str nor bytes, or `parties` is not an int.
            ValueError: The name is empty or longer than 4 KiB, or `parties` is not positive.
        """
        return CyclicBarrier(self._context, name, parties)

    @explained
    async def adopt(self, token: str, *, name: Name | None = None) -> Lease:
        """Take over the lock that another process gave away with `lease.hand_over()`.

        Return its lease, for the current task, renewed from now on as if the task had acquired it.
        Use it as a block, or release it. The lease of a fenced lock is a `FencedLease` with the
        giver's token.

        Promised: each token is adopted at most once, whoever tries; nobody else held the lock
        between the giver's lease and this one. If this process dies, the lock becomes free within
        one lease.

        Cancellation: a cancelled call holds nothing. The lock is then released, or, if the request
        had not arrived, becomes free when the lease that the giver left runs out.

        Args:
            token: What `hand_over` returned.
            name: The name that the token must be for; None: any.

        Raises:
            NotHeldError: It was adopted before, with the same token. The server remembers that for
                a minute; later it is a `LeaseLostError`.
            LeaseLostError: Its lease ended before this call (`reason` is `"expired"`); or, before
                that, a `force_release` freed it, the server lost it, or it is on another server
                (`"taken"`).
            ValueError: It is no token, was damaged on the way, or is for another name, database,
                prefix or kind of lock than this client can adopt. Nothing was sent.
            TypeError: The token is not a str.
            ConnectionLostError: The server did not answer. What it may have given is released.
            ReplicationError: Too few replicas confirmed it; nothing is held.
            ClientClosedError: The client was closed.
        """
        handed = HandedOver.read(token)
        if name is not None and handed.key != self._context.options.names.key(name):
            raise ValueError(f"this token is for {handed.kind} {handed.name!r}, not for {name!r}")
        kinds: dict[str, Callable[[Name], ServerLock]] = {
            "lock": self.get_lock,
            "fenced lock": self.get_fenced_lock,
            "fair lock": self.get_fair_lock,
        }
        if handed.kind not in kinds:
            raise ValueError(f"this token is for {handed.kind} {handed.name!r}, of another release")
        return await adopt(kinds[handed.kind](handed.name), handed)

    @explained
    def get_rate_limiter(
        self,
        name: Name,
        rate: int | None = None,
        per: Duration = 1.0,
        *,
        per_client: bool = False,
    ) -> RateLimiter:
        """Return the limiter `name`; with `rate` the first use sets the rate if it has none.

        An existing limiter keeps its rate: if it has another, one warning says so.

        Args:
            name: The name.
            rate: How many units may be taken in any interval of `per` seconds, 1 or more.
            per: The interval in seconds, at least a millisecond. Default: 1.
            per_client: Each client has so many, instead of all together.

        Raises:
            TypeError: The name is neither str nor bytes, `rate` is not an int, `per` is not a
                number or a timedelta, or `per_client` is not a bool.
            ValueError: The name is empty or longer than 4 KiB; `rate` is not positive; or `per` is
                shorter than a millisecond or longer than ten years.
        """
        return RateLimiter(self._context, name, rate, per, per_client)

    def statistics(self) -> ClientStatistics:
        """Return local counters. No I/O."""
        traffic = self._router.traffic
        return self._context.statistics(
            commands_sent=traffic.commands,
            connections=traffic.connections,
            evictions=traffic.evicted,
        )

    async def aclose(self) -> None:
        """Close the client: release what is still held, fail all waiters, disconnect. Idempotent.

        Waiters get `ClientClosedError`. What is still held is released, and one warning names it; a
        block that is still running loses its lease. A second call returns when the first has
        finished. If cancelled, the client is closed all the same, in the background.
        """
        await self._life.close()
