"""Which server a client talks to, by the server's own run id: addresses have several spellings.

A server is asked once on each connection, with the first request that depends on the answer. If it
does not answer (the user has no permission for INFO), only its address identifies it.

A cluster is one server here, whatever node has a key and whatever nodes the user named: its nodes
fail together. The ids of its nodes in the slot map identify it.

A server that did not answer in time is not asked until it answers a PING.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence
from contextlib import suppress

from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._loop import Future
from redisson_py._redis.context import RedisContext, redis_of
from redisson_py._redis.stream.call import ReplyError
from redisson_py._redis.stream.stream import Stream
from redisson_py._redis.stream.wire import Traffic
from redisson_py.errors import ClientClosedError

_RUN_ID = re.compile(r"run_id:(\w+)")


class _Identity:
    """The known identity of the server behind a stream.

    Attributes:
        run_id: Its run id; None if it does not tell.
        connections: The number of the stream's connection on which it answered; 0: not yet.
        asked: The future of its answer, until it has answered.
    """

    __slots__ = ("asked", "connections", "run_id")

    def __init__(self) -> None:
        self.run_id: str | None = None
        self.connections = 0
        self.asked: Future[object] | None = None

    def is_of(self, stream: Stream) -> bool:
        """Return whether the server has answered on the present connection of a stream."""
        return 0 < self.connections == stream.traffic.connections


_known: weakref.WeakKeyDictionary[Stream, _Identity] = weakref.WeakKeyDictionary()


def _stream_of(member: TaskOwnership) -> Stream | None:
    """Return the stream to the server of a member; None if that is no Redis."""
    context = redis_of(member.context)
    return None if context is None else context.executor.way_to(member.commands.key)


def open_way(member: TaskOwnership) -> Stream | None:
    """Return the way to the server of a member if what is sent now is written at once."""
    context = member.context
    if type(context) is not RedisContext:
        return None
    stream = context.executor.way_to(member.commands.key)
    # Where replicas confirm grants, a request may have to gather.
    return stream if stream.grants is stream and stream.can_begin else None


#: The PING to a server that did not answer in time.
_pings: weakref.WeakKeyDictionary[Stream, Future[object]] = weakref.WeakKeyDictionary()


def is_unresponsive(stream: Stream) -> bool:
    """Return whether that PING is still unanswered, on the connection it was sent on."""
    sent = _pings.get(stream)
    return sent is not None and not sent.done()


def ask(member: TaskOwnership) -> None:
    """Ask the server of a member for its run id, unless it was asked on this connection.

    Commands that are sent to it later are answered later. Other stores than Redis have none.
    """
    context, stream = redis_of(member.context), _stream_of(member)
    if context is None or stream is None:
        return
    identity = _known.setdefault(stream, _Identity())
    if identity.asked is not None or identity.is_of(stream):
        return
    call = context.executor.command(member.commands.key, "INFO", "server")
    identity.asked = call.future

    def answered(reply: Future[object]) -> None:
        identity.asked = None
        error = None if reply.cancelled() else reply.exception()
        if reply.cancelled() or (error is not None and not isinstance(error, ReplyError)):
            return
        # When it was sent, the cluster node of the key may not have been known.
        here = _stream_of(member)
        assert here is not None
        known = _known.setdefault(here, _Identity())
        known.connections = here.traffic.connections
        text = b"" if error is not None else reply.result()
        text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        found = _RUN_ID.search(text)
        known.run_id = None if found is None else found[1]

    call.future.add_done_callback(answered)


async def learn(member: TaskOwnership) -> None:
    """Ask the server of a member for its run id, and wait for the answer."""
    ask(member)
    identity = _identity_of(member)
    if identity is not None and identity.asked is not None:
        await identity.asked


def _identity_of(member: TaskOwnership) -> _Identity | None:
    stream = _stream_of(member)
    return None if stream is None else _known.get(stream)


def is_stranger(member: TaskOwnership) -> bool:
    """Return whether the server of a member has never answered the request for its run id."""
    if cluster_of(member) or redis_of(member.context) is None:
        return False
    identity = _identity_of(member)
    return identity is None or not identity.connections


def run_id(member: TaskOwnership) -> str | None:
    """Return the run id of a member's server, if known."""
    identity = _identity_of(member)
    return None if identity is None else identity.run_id


def names_of(member: TaskOwnership) -> list[str]:
    """Return the known names of a member's server: the node ids of its cluster, and its run id."""
    run = run_id(member)
    return [*sorted(cluster_of(member)), *([] if run is None else [run])]


def cluster_of(member: TaskOwnership) -> frozenset[str]:
    """Return the node ids of a member's cluster, as far as they are known."""
    context = redis_of(member.context)
    return frozenset() if context is None else context.executor.router.node_ids


class Servers:
    """The servers of the members of one lock, which must all be different.

    Args:
        members: The members.
    """

    def __init__(self, members: Sequence[TaskOwnership]) -> None:
        self._members = members
        contexts = [redis_of(member.context) for member in members]
        self._routes = [
            (context.executor.router, member.commands.key)
            for context, member in zip(contexts, members, strict=True)
            if context is not None
        ]
        #: The traffic of their streams when all were known to be different, and how many
        #: connections each had had.
        self._traffic: list[Traffic] = []
        self._distinct_at: list[int] | None = None

    @property
    def _streams(self) -> list[Stream]:
        """The streams to the servers. A client has a new one after a move to another event loop."""
        return [router.stream_for(key) for router, key in self._routes]

    def unfit(self) -> dict[int, str]:
        """Return why some servers cannot be asked now; one that is silent is not asked again."""
        reasons: dict[int, str] = {}
        any_ping = bool(_pings)
        for number, stream in enumerate(self._streams):
            if any_ping and is_unresponsive(stream):
                reasons[number] = "no answer, not even to an earlier request"
            elif not stream.can_begin and stream.full:
                reasons[number] = "not asked: too many requests are unanswered"
        return reasons

    def gave_no_answer(self, number: int) -> None:
        """Note that a server did not answer in time: it is not asked until it answers a PING."""
        stream = self._streams[number]
        if not is_unresponsive(stream):
            with suppress(ClientClosedError):
                _pings[stream] = stream.ping().future

    def probe(self) -> None:
        """Make all of them answer something soon, unless an answer is due anyway."""
        for stream in self._streams:
            stream.probe()

    def answer_at(self, moment: float) -> int:
        """Return how many of them answer at a moment that has come, in loop time."""
        return sum(stream.answers_at(moment) for stream in self._streams)

    @property
    def any_outlives(self) -> bool:
        """Whether a connection outlives its task: the event loop shuts down, and blocks release."""
        return any(stream.outlives is not None for stream in self._streams)

    def ask(self, numbers: Sequence[int]) -> bool:
        """Ask some servers for unknown run ids; return whether all answered at some time."""
        if [traffic.connections for traffic in self._traffic] == self._distinct_at:
            return True
        members = [self._members[number] for number in numbers]
        strangers = any(is_stranger(member) for member in members)
        for member in members:
            ask(member)
        return not strangers

    def check(self) -> None:
        """Raise if two addresses lead to one server, which would count twice.

        Raises:
            ValueError: They do.
        """
        if [traffic.connections for traffic in self._traffic] == self._distinct_at:
            return
        streams = self._streams
        connections = [stream.traffic.connections for stream in streams]
        known: dict[str, TaskOwnership] = {}
        settled = True
        for member, stream in zip(self._members, streams, strict=True):
            identity = _known.get(stream)
            nodes = cluster_of(member)
            settled = settled and (bool(nodes) or (identity is not None and identity.is_of(stream)))
            for name in names_of(member):
                other = known.setdefault(name, member)
                if other is not member:
                    where = "in one cluster" if nodes else "on one server"
                    raise ValueError(
                        f"{other!r} at {other.context.database} and {member!r} at"
                        f" {member.context.database} are {where}"
                    )
        if settled:
            self._traffic = [stream.traffic for stream in streams]
            self._distinct_at = connections
