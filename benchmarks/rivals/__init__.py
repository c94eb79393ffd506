"""The sides of the comparison, each behind the same small interface (`side.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """Where a side is found, and how it runs.

    Attributes:
        source: Module in this package, and class.
        loop: Its event loop.
        counts: Whether ratios to it count, so that it runs in every round.
    """

    source: str
    loop: str = "asyncio"
    counts: bool = False


OURS = "redisson_py"
OURS_UVLOOP = "redisson_py, uvloop"
REDIS_PY = "redis-py"
OURS_UNSYNCED = "redisson_py, sync_replicas=0"
REDIS_PY_CLUSTER = "redis-py, cluster"
REDIS_PY_64 = "redis-py, 64 connections"
BARE = "bare stream"
BARE_UVLOOP = "bare stream, uvloop"
BARE_LEAST = "bare stream, least scripts"
BARE_PACKING = "bare stream, packed by hiredis"
REDISSON = "Redisson (Java)"
REDISSON_ASYNC = "Redisson (Java), async"
REDISSON_ASYNC_8 = "Redisson (Java), async, 8 connections"
RUEIDISLOCK = "rueidislock (Go)"
PYTHON_REDIS_LOCK = "python-redis-lock"
POTTERY = "pottery"
AIOREDLOCK = "aioredlock"
POTTERY_THREADS = "pottery, threads"
PY_REDIS_SEMAPHORE = "py-redis-semaphore"
PY_REDIS_SEMAPHORE_POLLING = "py-redis-semaphore, polling"
LIMITS = "limits"
PYRATE_LIMITER = "pyrate-limiter"
AIOLIMITER = "aiolimiter"
OURS_POSTGRES = "PostgreSQL: redisson_py"
OURS_MYSQL = "MariaDB: redisson_py"
OURS_ETCD = "etcd: redisson_py"
OURS_ZOOKEEPER = "ZooKeeper: redisson_py"
ADVISORY_LOCK = "PostgreSQL: advisory lock, asyncpg"
TOOZ_POSTGRES = "PostgreSQL: tooz, threads"
GET_LOCK = "MariaDB: GET_LOCK, asyncmy"
TOOZ_MYSQL = "MariaDB: tooz, threads"
AETCD = "etcd: aetcd"
KAZOO = "ZooKeeper: kazoo, threads"
TOOZ_ZOOKEEPER = "ZooKeeper: tooz, threads"

#: In the order of their turns: those whose ratios count are near each other.
SIDES = {
    OURS: Entry("ours:Ours", counts=True),
    BARE: Entry("bare_stream:BareStream", counts=True),
    BARE_LEAST: Entry("bare_stream:BareStreamLeast", counts=True),
    OURS_UVLOOP: Entry("ours:Ours", "uvloop", counts=True),
    BARE_UVLOOP: Entry("bare_stream:BareStream", "uvloop", counts=True),
    RUEIDISLOCK: Entry("rueidislock:Rueidislock", counts=True),
    REDIS_PY: Entry("redis_py:RedisPy", counts=True),
    OURS_UNSYNCED: Entry("ours:OursUnsynced"),
    REDIS_PY_CLUSTER: Entry("redis_py_cluster:RedisPyCluster"),
    REDIS_PY_64: Entry("redis_py:RedisPySmallPool"),
    BARE_PACKING: Entry("bare_stream:BareStreamPacking", counts=True),
    REDISSON: Entry("redisson:Redisson", counts=True),
    REDISSON_ASYNC: Entry("redisson:RedissonAsync", counts=True),
    REDISSON_ASYNC_8: Entry("redisson:RedissonAsyncSmallPool", counts=True),
    PYTHON_REDIS_LOCK: Entry("python_redis_lock:PythonRedisLock"),
    POTTERY: Entry("pottery:Pottery"),
    AIOREDLOCK: Entry("aioredlock:Aioredlock"),
    POTTERY_THREADS: Entry("pottery:PotteryThreads"),
    PY_REDIS_SEMAPHORE: Entry("py_redis_semaphore:PyRedisSemaphore"),
    PY_REDIS_SEMAPHORE_POLLING: Entry("py_redis_semaphore:PyRedisSemaphorePolling"),
    LIMITS: Entry("limits:Limits"),
    PYRATE_LIMITER: Entry("pyrate_limiter:PyrateLimiter"),
    AIOLIMITER: Entry("aiolimiter:AioLimiter"),
}

#: What runs on each store other than Redis, ours first. They take part in `stores` only.
ON_STORES: dict[str, dict[str, Entry]] = {
    "postgres": {
        OURS_POSTGRES: Entry("stores:OursOnStore"),
        ADVISORY_LOCK: Entry("stores:AdvisoryLock"),
        TOOZ_POSTGRES: Entry("stores:Tooz"),
    },
    "mysql": {
        OURS_MYSQL: Entry("stores:OursOnStore"),
        GET_LOCK: Entry("stores:GetLock"),
        TOOZ_MYSQL: Entry("stores:Tooz"),
    },
    "etcd": {
        OURS_ETCD: Entry("stores:OursOnStore"),
        AETCD: Entry("stores:Aetcd"),
    },
    "zookeeper": {
        OURS_ZOOKEEPER: Entry("stores:OursOnStore"),
        KAZOO: Entry("stores:Kazoo"),
        TOOZ_ZOOKEEPER: Entry("stores:Tooz"),
    },
}

#: Sides that stand for something else than a lock on one server.
NO_PLAIN_LOCK = (
    *(POTTERY_THREADS, PY_REDIS_SEMAPHORE, PY_REDIS_SEMAPHORE_POLLING),
    *(OURS_UNSYNCED, REDIS_PY_CLUSTER),
    *(LIMITS, PYRATE_LIMITER, AIOLIMITER),
)
