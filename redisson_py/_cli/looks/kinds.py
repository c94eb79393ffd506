"""Looks at resources with plain commands that read: no script, and nothing changes.

Each kind is a generator that yields commands and is sent the replies, so the looks at any number of
resources leave in the same few writes. The replies to one look are not of one moment.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from redisson_py import BackendError, _keys
from redisson_py._cli.looks import alive
from redisson_py._cli.looks.asking import Asker, Command
from redisson_py._cli.looks.found import Found, Kind, Party, text
from redisson_py._cli.looks.keyspace import FAMILIES, Resource, is_owner
from redisson_py._cli.looks.replies import (
    description,
    holders,
    integer,
    is_key_refused,
    pairs,
    readable,
    seconds,
    until,
    waiting_clients,
    want_permits,
)
from redisson_py._redis.commands.client_queue import client_of
from redisson_py._redis.commands.election import BESIDE_OWNER
from redisson_py._redis.commands.once import OnceCommands
from redisson_py._redis.commands.permit_expirable_semaphore import owner_of
from redisson_py._redis.commands.rate_limiter import RateLimiterCommands
from redisson_py._redis.commands.read_write_lock import WRITE_SUFFIX

Look = Generator[list[Command], list[Any], Found | None]

#: Channels of one PUBSUB command.
_CHANNELS = 100
#: The most clients of a semaphore's queue that are called at once.
_MOST_CALLED = 100
#: The most admissions of a rate limiter, of those that have ended, whose units are added up.
_MOST_ENDED = 10_000
#: Clients whose descriptions are remembered.
_MOST_KNOWN = 10_000


class Looker:
    """Looks at resources.

    Args:
        asker: Sends the commands.
        listed: The most holders, and the most waiters, that are listed for each.
    """

    def __init__(self, asker: Asker, listed: int) -> None:
        self._asker = asker
        self._listed = listed
        self._known: dict[str, dict[str, Any]] = {}

    async def look(self, resources: Iterable[Resource]) -> dict[Resource, Found]:
        """Return what is there of these resources.

        Those that are gone, and those that the user may not read, are left out.

        Raises:
            ScriptError: A command is not permitted.
            ConnectionLostError: A server did not answer.
        """
        return await self._look_at(resources, strict=False)

    async def _look_at(
        self, resources: Iterable[Resource], *, strict: bool
    ) -> dict[Resource, Found]:
        wanted = list(resources)
        looks = [self._look(resource) for resource in wanted]
        results = await self._together(looks, strict=strict)
        there = {each: found for each, found in zip(wanted, results, strict=True) if found}
        return dict(zip(there, await self._described(list(there.values())), strict=True))

    async def inspect(self, key: bytes, kind: Kind | None = None) -> tuple[list[Found], str]:
        """Return everything that shares a name, and the type of its key (`none`: there is none).

        With a kind, only what may be of that kind. Errors as for `look`; a `ScriptError` also if
        the user may not read one of the keys.
        """
        resources = [Resource(key, family) for family in FAMILIES]
        found = list((await self._look_at(resources, strict=True)).values())
        kind_of_key = (await self._asker.ask(key, "TYPE", key)).decode()
        if kind_of_key == "string" and not any(each.kind.endswith("semaphore") for each in found):
            found += filter(None, await self._together([self._number(key)], strict=True))
        if kind is not None:
            found = [alike for each in found if (alike := each.as_kind(kind)) is not None]
        return found, kind_of_key

    def forget(self) -> None:
        """Forget what clients say of themselves."""
        self._known.clear()

    async def _together(self, looks: Sequence[Look], *, strict: bool) -> list[Found | None]:
        """Run looks side by side: what each wants next leaves in the same write.

        Unless it is strict, there is nothing where the user may not read a key.
        """
        results: list[Found | None] = [None] * len(looks)
        wanted = {index: next(look) for index, look in enumerate(looks)}
        while wanted:
            commands = [each for those in wanted.values() for each in those]
            replies = iter(await self._asker.ask_all(commands))
            following: dict[int, list[Command]] = {}
            for index, those in wanted.items():
                own = [next(replies) for _ in those]
                if not strict and any(is_key_refused(reply) for reply in own):
                    continue
                own = [readable(reply) for reply in own]
                try:
                    following[index] = looks[index].send(own)
                except StopIteration as end:
                    results[index] = end.value
            wanted = following
        return results

    def _look(self, resource: Resource) -> Look:
        match resource.family:
            case "lock":
                return self._lock(resource.key)
            case "semaphore":
                return self._semaphore(resource.key)
            case "permits":
                return self._permits(resource.key)
            case "barrier":
                return self._barrier(resource.key)
            case "rate limiter":
                return self._rate_limiter(resource.key)
            case "once":
                return self._once(resource.key)

    def _found(self, key: bytes, kind: Kind, **details: Any) -> Found:
        return Found(text(key.removeprefix(self._asker.prefix.encode())), key, kind, **details)

    def _lock(self, key: bytes) -> Look:
        queue = _keys.prefixed(b"redisson_lock_queue", key)
        token_key = _keys.fencing_token(key)
        writers_key, clients_key = _keys.waiting_writers(key), _keys.waiting_clients(key)
        last = self._listed - 1
        scanned, mode, lock_left, queued, token, writers, clients, time = yield [
            (key, "HSCAN", key, 0, "COUNT", self._listed + 1),
            # With many readers, one HSCAN need not return this field.
            (key, "HGET", key, "mode"),
            (key, "PTTL", key),
            (key, "LRANGE", queue, 0, last),
            (key, "GET", token_key),
            (key, "ZRANGE", writers_key, 0, last, "REV", "WITHSCORES"),
            # The first entries may say who was called: of a lock one, or many readers.
            (key, "ZRANGE", clients_key, 0, 2 * self._listed, "WITHSCORES"),
            (key, "TIME"),
        ]
        cursor, flat = scanned or (b"0", [])
        fields: dict[bytes, bytes] = dict(zip(flat[::2], flat[1::2], strict=True))
        fields.pop(b"mode", None)
        value = fields.get(b"value")
        beside = [field for field in BESIDE_OWNER if fields.pop(field, None) is not None]
        if not all(is_owner(field) for field in fields) or mode not in (None, b"read", b"write"):
            return None
        lease = seconds(lock_left)
        there = (fields or mode) and lease >= 0
        listed = list(holders(fields, mode, lease)) if there else []
        parties, ended = yield from alive.readers(key, listed, self._listed)
        total = len(listed) - ended
        if not (mode or value is not None):
            parties = yield from alive.holding(key, parties)
        queued, dead = yield from alive.queued(key, queue, queued or [], time, self._listed)
        # At a key of another type there is no lock to wait for.
        clients = clients if scanned is not None else None
        queue_of_clients = waiting_clients(clients or [], time)
        waiting = [Party(text(each), 0) for each in queued] + queue_of_clients[: self._listed]
        waiters_total = 0
        if cursor != b"0" or queued or writers or clients:
            length, queue_length, writer_count, client_count = yield [
                (key, "HLEN", key),
                (key, "LLEN", queue),
                (key, "ZCARD", writers_key),
                # Other entries have scores below and above those of clients.
                (key, "ZCOUNT", clients_key, 0, 3_000_000_000_000_000),
            ]
            if there:
                total = max(len(parties), (length or 0) - (mode is not None) - len(beside) - ended)
            # A dead writer keeps nobody out. Those that wait alone stand in the queue too.
            clients_there = {member for member, _ in pairs(clients or [])}
            live = [
                owner
                for owner, ends_at in pairs(writers or [])
                if until(ends_at, time) > 0
                and client_of(owner).encode() + WRITE_SUFFIX.encode() not in clients_there
            ]
            waiting += [Party(text(each).removesuffix(WRITE_SUFFIX), 0) for each in live]
            known = (queue_length or 0) - dead + (writer_count or 0) - len(pairs(writers or []))
            known += client_count or 0
            waiters_total = max(len(waiting), known + len(live))
        if not (there or waiting or token):
            return None
        kind: Kind = "lock" if value is None else "election"
        sides = any(member.endswith((b":read", b":write")) for member, _ in pairs(clients or []))
        if kind == "election":
            pass
        elif mode or ((writers or sides) and not parties):
            kind = "read-write-lock"
        elif queued:
            kind = "fair-lock"
        elif token:
            kind = "fenced-lock"
        reads_writes = kind == "read-write-lock"
        return self._found(
            key,
            kind,
            holders=tuple(parties),
            holders_total=total,
            waiters=tuple(waiting),
            waiters_total=waiters_total,
            channel=_keys.read_write_channel(key) if reads_writes else _keys.lock_channel(key),
            token=integer(token),
            value=None if value is None else text(value),
            keys=(
                *([key] if there else []),
                *([queue] if queued else []),
                *([token_key] if token else []),
                *([writers_key] if writers else []),
                *([clients_key] if clients else []),
            ),
        )

    def _semaphore(self, key: bytes) -> Look:
        permits = _keys.suffixed(key, b"redisson_py:permits")
        units_key = _keys.suffixed(key, b"redisson_py:units")
        free, total, rows, time, clients, count = yield self._counted(key, permits)
        waiting = waiting_clients(clients or [], time)
        if not (rows or want_permits(free, clients, ids=False)):
            return None
        held = yield from alive.leases(key, permits, rows, total, time, self._listed)
        owners = [*(owner for owner, _ in held.first), *held.ended]
        # One more: there may be none.
        (counts,) = yield [(key, "HMGET", units_key, *owners, b"")]
        units = dict(zip(owners, counts or [None] * len(owners), strict=False))
        holders = tuple(
            Party(text(owner), integer(units[owner]) or 0, until(ends_at, time))
            for owner, ends_at in held.first
        )
        # Of an owner whose count has vanished one unit comes back.
        back = sum(integer(units[owner]) or 1 for owner in held.ended)
        keys = (permits, units_key) if rows else ()
        found = self._with_permits(key, "semaphore", holders, held.total, free, back, keys)
        return found.waited_for_by(waiting, count, self._listed)

    def _permits(self, key: bytes) -> Look:
        permits = _keys.suffixed(key, b"timeout")
        free, total, rows, time, clients, count = yield self._counted(key, permits)
        waiting = waiting_clients(clients or [], time)
        # A sorted set of another application may have such a name.
        if any(len(permit) != 16 for permit, _ in pairs(rows or [])):
            return None
        if not (rows or want_permits(free, clients, ids=True)):
            return None
        held = yield from alive.leases(key, permits, rows, total, time, self._listed)
        holders = tuple(
            Party(owner_of(permit), 1, until(ends_at, time), permit=permit.hex())
            for permit, ends_at in held.first
        )
        kind: Kind = "permit-expirable-semaphore"
        back = len(held.ended)
        keys = (permits,) if rows else ()
        found = self._with_permits(key, kind, holders, held.total, free, back, keys)
        return found.waited_for_by(waiting, count, self._listed)

    def _counted(self, key: bytes, permits: bytes) -> list[Command]:
        clients = _keys.waiting_clients(key)
        return [
            (key, "GETRANGE", key, 0, 31),
            (key, "ZCARD", permits),
            (key, "ZRANGE", permits, 0, self._listed - 1, "WITHSCORES"),
            (key, "TIME"),
            # The first entries may say who was called.
            (key, "ZRANGE", clients, 0, _MOST_CALLED + self._listed - 1, "WITHSCORES"),
            (key, "ZCOUNT", clients, 0, 3_000_000_000_000_000),
        ]

    def _with_permits(
        self,
        key: bytes,
        kind: Kind,
        holders: tuple[Party, ...],
        total: int,
        free: bytes | None,
        back: int,
        keys: tuple[bytes, ...],
    ) -> Found:
        """Return a semaphore; `back` units of holders whose leases are over count as free."""
        number = integer(free)
        return self._found(
            key,
            kind,
            holders=holders,
            holders_total=total,
            available=None if number is None else number + back,
            channel=_keys.permit_channel(key),
            keys=(*([key] if free else []), *keys),
        )

    def _number(self, key: bytes) -> Look:
        """A string: a latch, or a semaphore whose permits nobody has recorded."""
        (number,) = yield [(key, "GETRANGE", key, 0, 31)]
        if integer(number) is None:
            return None
        return self._found(
            key,
            "latch-or-semaphore",
            available=integer(number),
            channel=_keys.latch_channel(key),
            keys=(key,),
        )

    def _barrier(self, key: bytes) -> Look:
        barrier = _keys.suffixed(key, b"redisson_py:barrier")
        arrivals = _keys.suffixed(key, b"redisson_py:arrivals")
        state, total, rows, time = yield [
            (key, "HMGET", barrier, "generation", "parties", "broken"),
            (key, "ZCARD", arrivals),
            (key, "ZRANGE", arrivals, 0, self._listed - 1, "WITHSCORES"),
            (key, "TIME"),
        ]
        generation, parties, broken = state or (None, None, None)
        arrived = yield from alive.leases(key, arrivals, rows, total, time, self._listed)
        if not (generation or broken) or (rows and not arrived.total):
            return None
        return self._found(
            key,
            "barrier",
            holders=tuple(Party(text(each), 1, until(end, time)) for each, end in arrived.first),
            holders_total=arrived.total,
            parties=integer(parties),
            # A party whose arrival has ended has broken it, even if nobody has noticed yet.
            broken=broken is not None or bool(arrived.ended),
            channel=_keys.barrier_channel(key),
            keys=(barrier, *([arrivals] if rows else [])),
        )

    def _rate_limiter(self, key: bytes) -> Look:
        of_all = RateLimiterCommands(key, "", 0).keys(per_client=False)
        _, value_key, permits = of_all
        limit, value, time = yield [
            (key, "HMGET", key, "rate", "interval", "type"),
            (key, "GETRANGE", value_key, 0, 31),
            (key, "TIME"),
        ]
        rate, interval_ms, kind = (integer(each) for each in limit or (None, None, None))
        if not (rate and interval_ms) or kind not in (0, 1):
            return None
        left: int | None = None
        keys: tuple[bytes, ...] = (key,)
        if kind == 0:
            ended = int(time[0]) * 1000 + int(time[1]) // 1000 - interval_ms
            (members,) = yield [
                (key, "ZRANGEBYSCORE", permits, "-inf", ended, "LIMIT", 0, _MOST_ENDED)
            ]
            counted = integer(value)
            back = sum(int.from_bytes(each[-4:], "little") for each in members or [])
            left = rate if counted is None else min(rate, counted + back)
            keys = of_all if value else keys
        return self._found(
            key,
            "rate-limiter",
            available=left,
            rate=rate,
            per=interval_ms / 1000,
            channel=_keys.rate_channel(key),
            keys=keys,
        )

    def _once(self, key: bytes) -> Look:
        commands = OnceCommands(_keys.once(key), 1)
        lock, record, token_key = commands.keys
        scanned, lock_left, record_left, token = yield [
            (key, "HSCAN", lock, 0, "COUNT", self._listed + 1),
            (key, "PTTL", lock),
            (key, "PTTL", record),
            (key, "GET", token_key),
        ]
        _, flat = scanned or (b"0", [])
        fields: dict[bytes, bytes] = dict(zip(flat[::2], flat[1::2], strict=True))
        if not all(is_owner(field) for field in fields):
            return None
        lease, kept = seconds(lock_left), seconds(record_left)
        there, done = fields and lease >= 0, kept >= 0
        parties = yield from alive.holding(
            lock, list(holders(fields, None, lease) if there else ())
        )
        if not (there or done or token):
            return None
        return self._found(
            key,
            "once",
            holders=tuple(parties[: self._listed]),
            holders_total=len(parties),
            channel=commands.channel,
            token=integer(token),
            kept=kept if done else None,
            keys=(
                *([lock] if there else []),
                *([record] if done else []),
                *([token_key] if token else []),
            ),
        )

    async def _described(self, found: list[Found]) -> list[Found]:
        """Return what was found with what clients say of themselves."""
        parties = [party for each in found for party in (*each.holders, *each.waiters)]
        unknown = {party.client_id for party in parties} - self._known.keys()
        keys = [_keys.client_description(self._asker.prefix, each) for each in sorted(unknown)]
        # Descriptions may be on other servers than the resources: their errors fail no look.
        texts = await self._asker.try_all([(key, "GET", key) for key in keys])
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        for client_id, said in zip(sorted(unknown), texts, strict=True):
            self._known[client_id] = description(said)
        return [
            replace(
                each,
                holders=tuple(self._describe(party) for party in each.holders),
                waiters=tuple(self._describe(party) for party in each.waiters),
            )
            for each in found
        ]

    def _describe(self, party: Party) -> Party:
        said = self._known.get(party.client_id, {})
        if not said and party.permit is not None:
            # The id is Redisson's, or its client has no description: any id looks like ours.
            return replace(party, owner=party.permit)
        return replace(party, **said)

    async def listeners(self, found: list[Found], servers: Iterable[bytes]) -> list[Found]:
        """Return what was found with how many connections listen on its channels.

        That stays unknown if a server does not say it.

        Args:
            found: What was found.
            servers: A key of each server.
        """
        anchors = list(servers)
        channels = {channel: each.key for each in found for channel in _channels(each)}
        counts = dict.fromkeys(channels, 0)
        asked = list(channels)
        commands: list[Command] = []
        for start in range(0, len(asked), _CHANNELS):
            some = asked[start : start + _CHANNELS]
            # Redisson listens at any node of a cluster, unless pub/sub is sharded.
            commands += [(server, "PUBSUB", "NUMSUB", *some) for server in anchors]
            if self._asker.in_cluster:
                commands += self._sharded(some, channels)
        for command, reply in zip(commands, await self._asker.try_all(commands), strict=True):
            if isinstance(reply, BackendError):
                if command[2] == "NUMSUB" or "unknown" not in str(reply).lower():
                    return found
                # Redis 6.2 has no such command, and no such channels.
                continue
            for channel, count in zip(reply[::2], reply[1::2], strict=True):
                counts[channel] += count
        return [
            replace(each, listeners=sum(counts[channel] for channel in _channels(each)))
            for each in found
        ]

    def _sharded(self, some: list[bytes], channels: dict[bytes, bytes]) -> list[Command]:
        by_server: dict[str, list[bytes]] = {}
        for channel in some:
            by_server.setdefault(self._asker.server_of(channels[channel]), []).append(channel)
        return [(channels[own[0]], "PUBSUB", "SHARDNUMSUB", *own) for own in by_server.values()]


def _channels(found: Found) -> list[bytes]:
    """Return the channels on which waiters listen."""
    if found.kind in ("fair-lock", "election"):
        return [found.channel, *(found.channel + b":" + w.owner.encode() for w in found.waiters)]
    if found.kind == "latch-or-semaphore":
        return [found.channel, _keys.permit_channel(found.key)]
    return [found.channel]
