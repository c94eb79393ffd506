"""The client: makes everything else.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack, final

from redisson_py import ClientStatistics
from redisson_py import Redisson as AsyncRedisson
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.locks.read_write_lock import Prefer
from redisson_py.sync._barrier import CyclicBarrier
from redisson_py.sync._client_like import ClientLike
from redisson_py.sync._composites import MultiLock, RedLock
from redisson_py.sync._election import Election
from redisson_py.sync._latch import CountDownLatch
from redisson_py.sync._leases import Lease
from redisson_py.sync._lock_like import LockLike
from redisson_py.sync._locks import FairLock, FencedLock, RLock, ServerLock
from redisson_py.sync._once import Once
from redisson_py.sync._options import RedissonOptions
from redisson_py.sync._permit_expirable_semaphore import PermitExpirableSemaphore
from redisson_py.sync._rate_limiter import RateLimiter
from redisson_py.sync._read_write_lock import ReadWriteLock
from redisson_py.sync._semaphore import Semaphore

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster


@final
class Redisson(ClientLike):
    """A client: makes locks and keeps what they hold.

    Use it as `with Redisson.from_url(...) as client`, or construct it anywhere, such as in a
    module (nothing starts or connects until first use). `close()` ends it, and `with` opens it
    again, with a new id. When the interpreter exits it is closed. One client serves any number
    of threads and names. It has one connection to each server that it uses: the one server, the
    master, or nodes of a cluster. With `sync_replicas` a second connection carries grants; with
    Sentinel a small one leads to each Sentinel. See docs/topologies.md.

    All clients share one thread, in which an event loop works for them. It starts with the
    first use. A thread that runs an event loop of its own gets a RuntimeError: use
    `redisson_py.Redisson` there. A client that has not connected yet may be used after a fork,
    with the locks that it made; one that has raises ClientClosedError in the child.

    Background work runs with the context variables of the code that created the client:
    connecting, `address_map`, a credential provider, and most log records of these.

    Args:
        client: A `redis.asyncio.Redis` (also what `Sentinel.master_for` returns) or
            `RedisCluster`. Its addresses, credentials and TLS settings are used; connections
            are our own, and `close` leaves the client open. Its `socket_connect_timeout` bounds
            each attempt to connect, unless it is redis-py's default. Its `socket_timeout` is
            ignored, because redis-py gives every client one: see `command_timeout`. The
            client's pool, retry, health-check and decoding settings are ignored.
        lease_time: Seconds for which the watchdog keeps a lock; it renews it every third of
            that. Shorter: the lock of a crashed process is free sooner. Longer: locks survive
            longer outages, of up to two thirds of it. Default: 30
        prefix: Text that is put before every name. Default: ""
        name_mapper: A function from a name to its Redis key; instead of `prefix`. Default: None
        on_lost: A function that is called with the `LostEvent` of each lost lease, in a thread
            that all clients share: it may block, and use the client. `"raise"` calls nothing.
            In both cases the body of a block runs on, and `LeaseLostError` is raised at its
            end. Default: "raise"
        turn: Seconds for which a contended lock is passed among this client's threads before
            other processes get a chance; 0 never passes it. Default: 0.01
        client_name: Name of the connection, which `inspect` and CLIENT LIST show. Default: None
        sharded_pubsub: For clusters: `"auto"` uses sharded pub/sub where the cluster has it, as
            Redisson does; `"on"` and `"off"` force it, and Redisson needs the same setting.
            Default: "auto"
        sync_replicas: How many replicas must confirm a grant or a renewal before it counts. If
            too few do, `ReplicationError` is raised and nothing is held. `"auto"`: one if the
            master has any, and none for a single server. Releases, latches and barriers are not
            confirmed. Only a grant that all replicas have survives whichever of them is
            promoted. Default: "auto"
        sync_timeout: Seconds to wait for replicas to confirm. Default: 1
        address_map: For clusters and Sentinel: maps the address that a node announces to the
            one to use. A mapping from `"host:port"` or `(host, port)` to either, or a function
            that takes host and port and returns both. Without it, a `RedisCluster`'s own
            `address_remap` is used. Default: None
        command_timeout: Seconds for which a call without a timeout of its own waits for a
            server that does not answer; at most 30. Default: 5
        acquire_timeout: The `timeout` of every acquire that has none; None waits without end.
            Default: None
        on_release_error: What a block does when its release gets no answer: `"log"` logs a
            warning and ends normally, because the work was protected; `"raise"` raises
            `ReleaseFailedError`. Default: "log"
        idle_lifetime: Seconds after the last lease for which Redis keeps a semaphore, and the
            counter of a fenced lock; None keeps them, as Redisson does. At least 10, and more
            than `lease_time`. Set the same `idle_lifetime` on every client that uses the name,
            and none for names that Redisson uses too. Afterwards a semaphore has forgotten its
            number of permits, and tokens grow only if the server's clock was not stepped back:
            see "What stays in Redis" in docs/safety.md. Default: None
        listener: A `Listener`, which is called with acquisitions, waits, losses and outages, in
            the thread of the event loop: its methods must not block. Default: None

    Raises:
        TypeError: `client` is no asyncio client of redis-py, an option has the wrong type, or
            there is no such option.
        ValueError: An option is out of range or for other servers than these, or the client
            reads from replicas, or connects in a way of its own.
    """

    def __init__(self, client: Redis | RedisCluster, **options: Unpack[RedissonOptions]) -> None:
        self._build(AsyncRedisson, client, options)

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
        self = cls.__new__(cls)
        self._build(AsyncRedisson.from_url, url, options)
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
            TypeError: The path is neither str nor a path, an option has the wrong type, or does not
                exist.
            ValueError: The file is malformed, or asks for something that is not supported; the
                error names the file and the key, never a value.
            OSError: The file cannot be read.
            ModuleNotFoundError: The file is YAML, and PyYAML is not installed.
        """
        self = cls.__new__(cls)
        self._build(AsyncRedisson.from_file, path, options)
        return self

    @property
    def id(self) -> str:
        """The client's id. It is the first part of every owner of this client."""
        client_id: str = self._working.id
        return client_id

    @explained
    def ping(self, *, timeout: Duration | None = None) -> None:
        """Return when Redis has answered. Interrupting is harmless.

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
        self._call(lambda own: own.ping(timeout=timeout))

    @explained
    def get_lock(self, name: Name, *, reentrant: bool = True) -> RLock:
        """Return the reentrant lock `name`; with `reentrant=False`, one that refuses re-entry.

        Raises:
            TypeError: The name is neither str nor bytes.
            ValueError: The name is empty or longer than 4 KiB.
        """
        return RLock(lambda of: of(self).get_lock(name, reentrant=reentrant))

    @explained
    def get_fenced_lock(self, name: Name) -> FencedLock:
        """Return the lock `name` whose leases carry a fencing token; errors as for `get_lock`."""
        return FencedLock(lambda of: of(self).get_fenced_lock(name))

    @explained
    def get_fair_lock(self, name: Name, *, reentrant: bool = True) -> FairLock:
        """Return the lock `name` that is granted in order of arrival across processes.

        Errors as for `get_lock`.
        """
        return FairLock(lambda of: of(self).get_fair_lock(name, reentrant=reentrant))

    @explained
    def get_read_write_lock(self, name: Name, *, prefer: Prefer = "readers") -> ReadWriteLock:
        """Return the lock `name` for many readers or one writer; errors as for `get_lock`.

        With `prefer="writers"` a waiting writer keeps new readers out; see `ReadWriteLock`.
        """
        return ReadWriteLock(lambda of: of(self).get_read_write_lock(name, prefer=prefer))

    @explained
    def get_once(self, name: Name, *, keep: Duration = 86400.0) -> Once:
        """Return what carries `name` out once, and remembers that it is done for `keep` seconds.

        Args:
            name: The name of the work, different for each thing that is done: `"pay:42"`.
            keep: Seconds for which the server remembers that it is done, and its result; from a
                millisecond to ten years. The one that completes it decides. Default: one day

        Raises:
            TypeError: The name is neither str nor bytes, or `keep` is no time.
            ValueError: The name is empty or longer than 4 KiB, or `keep` is out of range.
        """
        return Once(lambda of: of(self).get_once(name, keep=keep))

    @explained
    def get_election(self, name: Name) -> Election:
        """Return the election `name` of a leader with a value; errors as for `get_lock`."""
        return Election(lambda of: of(self).get_election(name))

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
        return Semaphore(lambda of: of(self).get_semaphore(name, permits))

    @explained
    def get_permit_expirable_semaphore(
        self, name: Name, permits: int | None = None
    ) -> PermitExpirableSemaphore:
        """Return the semaphore `name` whose permits each have an id and a lease.

        Arguments and errors as for `get_semaphore`.
        """
        return PermitExpirableSemaphore(
            lambda of: of(self).get_permit_expirable_semaphore(name, permits)
        )

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
        return CountDownLatch(lambda of: of(self).get_latch(name, count))

    @explained
    def get_barrier(self, name: Name, parties: int) -> CyclicBarrier:
        """Return the barrier `name` for a number of parties, the same for all of them.

        Raises:
            TypeError: The name is neither str nor bytes, or `parties` is not an int.
            ValueError: The name is empty or longer than 4 KiB, or `parties` is not positive.
        """
        return CyclicBarrier(lambda of: of(self).get_barrier(name, parties))

    @explained
    def adopt(self, token: str, *, name: Name | None = None) -> Lease:
        """Take over the lock that another process gave away with `lease.hand_over()`.

        Return its lease, for the current thread, renewed from now on as if the thread had acquired
        it. Use it as a block, or release it. The lease of a fenced lock is a `FencedLease` with the
        giver's token.

        Promised: each token is adopted at most once, whoever tries; nobody else held the lock
        between the giver's lease and this one. If this process dies, the lock becomes free within
        one lease.

        Interruption: an interrupted call holds nothing. The lock is then released, or, if the
        request had not arrived, becomes free when the lease that the giver left runs out.

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
        value: Lease = self._acquire(lambda own: own.adopt(token, name=name))
        return value

    @explained
    def get_rate_limiter(
        self, name: Name, rate: int | None = None, per: Duration = 1.0, *, per_client: bool = False
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
        return RateLimiter(
            lambda of: of(self).get_rate_limiter(name, rate, per, per_client=per_client)
        )

    def statistics(self) -> ClientStatistics:
        """Return local counters. No I/O."""
        value: ClientStatistics = self._look(lambda own: own.statistics())
        return value

    def close(self) -> None:
        """Close the client: release what is still held, fail all waiters, disconnect. Idempotent.

        Waiters get `ClientClosedError`. What is still held is released, and one warning names it; a
        block that is still running loses its lease. A second call returns when the first has
        finished. If interrupted, the client is closed all the same, in the background.
        """
        self._close()

    def __enter__(self) -> Self:
        self._call(lambda own: own.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
