"""A Redis cluster: one stream per node, and which of them serves a key now.

The map of the slots comes from the nodes. They are asked when there is a reason: at the start, when
a node redirects a call or ends a subscription, when a node is silent or gone, and when the replicas
of a node must be counted that does not say how many it has. They are never asked by the clock.

Invariants:

- Each slot has one stream: that of the node that is its master as far as known, or that of unrouted
  calls, which wait until the master is known.
- Calls that a stream was given for a slot that moved go on to the slot's new master, in order. A
  stream whose node serves nothing any more is given up, and later replies are not read: the node
  may have been frozen for longer than it took to replace it.
- A new connection to a suspected node is used only after another node has said what it serves.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Literal

from redisson_py._addresses import Address, AddressMap, write_address
from redisson_py._keys import SLOTS, key_slot
from redisson_py._loop import (
    Future,
    Task,
    loop_time,
    new_future,
    sleep,
    wait_until,
    wake,
)
from redisson_py._redis.stream.router import Followers, NewStream
from redisson_py._redis.stream.settings import LONGEST_PAUSE_SECONDS, Elsewhere
from redisson_py._redis.stream.wire import Traffic
from redisson_py._redis.topology.discovery import Answer, Discovery
from redisson_py._redis.topology.nodes import Nodes
from redisson_py._redis.topology.slots import Redirect, SlotMap, changes, read_redirect
from redisson_py._retry import pause_before
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import AbstractConnection, Connector
    from redisson_py._redis.stream.call import Call, ReplyError
    from redisson_py._redis.stream.stream import Stream

log = logging.getLogger("redisson_py")

#: Seconds for which a MOVED overrides the map of a node that may not know of the move yet.
_MOVED_TRUST_SECONDS = 2.0

#: Redirections of one call that are followed at once; later ones after a pause.
_QUICK_REDIRECTS = 2

#: Shortest time in seconds between two questions for the map.
_QUESTION_GAP_SECONDS = 0.02

#: How many questions for the map follow quickly during one failure: enough for ten seconds.
_QUICK_QUESTIONS = 50


class _MapOpener:
    """Opens nothing: it waits until it is known which nodes serve its stream's calls.

    Args:
        seeds: The addresses that the user knows.
        connect_timeout: Seconds that one attempt may take, if the user said so.
        wait: Waits for the map.
    """

    def __init__(
        self,
        seeds: Collection[Address],
        connect_timeout: float | None,
        wait: Callable[[float], Awaitable[None]],
    ) -> None:
        self.where = ",".join(write_address(*address) for address in seeds)
        self.connect_timeout = connect_timeout
        self._wait = wait

    async def open(self, limit: float) -> AbstractConnection:
        """Wait; see `ClusterRouter`. Never returns a connection; errors as for `Opener`."""
        await self._wait(limit)
        raise Elsewhere


class ClusterRouter:
    """The streams to the nodes of one cluster.

    Args:
        connector: How to connect to a node, wherever it is.
        seeds: The addresses that the user knows.
        address_map: Turns an announced address into one that can be reached from here.
        sharded_pubsub: The option of the user.
        new_stream: Makes a stream.
        followers: What relies on the servers of its keys.
    """

    def __init__(
        self,
        connector: Connector,
        seeds: Collection[Address],
        *,
        address_map: AddressMap | None,
        sharded_pubsub: Literal["auto", "on", "off"],
        new_stream: NewStream,
        followers: Followers,
    ) -> None:
        self._connector = connector
        self._seeds = tuple(seeds)
        self._address_map = address_map
        self._sharded_pubsub = sharded_pubsub
        self._new_stream = new_stream
        self._followers = followers
        self._begin(Traffic())

    def _begin(self, past: Traffic) -> None:
        opener = _MapOpener(self._seeds, self._connector.connect_timeout, self._wait_for_map)
        self._unrouted = self._new_stream(opener, self, fails_over=True)
        self._nodes = Nodes(self._unrouted, self._new_node, past)
        self._discovery = Discovery(self._connector, self._seeds, self._address_map, self._nodes)
        self._sharded: bool | None = {"on": True, "off": False}.get(self._sharded_pubsub)
        self._slots: SlotMap | None = None
        self._owners: list[Stream] = [self._unrouted] * SLOTS
        #: The master of a slot according to a MOVED, and when it came: (address, loop time).
        self._redirected: dict[int, tuple[Address, float]] = {}
        #: Nodes have ended subscriptions that are still needed.
        self._homeless = False
        #: Nodes that say the cluster is down: they may be cut off and have an old map.
        self._cut_off: set[Address] = set()
        self._asking: Task | None = None
        self._ask_again = False
        #: Done at the end of each round of questions.
        self._round: Future[None] | None = None
        #: When the question was asked that the present map answers, in loop time.
        self._asked_at = 0.0

    def _new_node(self, address: Address) -> Stream:
        opener = self._connector.at(*address)
        return self._new_stream(opener, self, sharded=bool(self._sharded), fails_over=True)

    # Keys, slots and streams.

    def stream_for(self, key: bytes) -> Stream:
        """Return the stream to the master of the slot of `key`."""
        return self._owners[key_slot(key)]

    def group(self, key: bytes) -> int:
        """Return the slot of `key`."""
        return key_slot(key)

    def streams(self) -> tuple[Stream, ...]:
        """Return the streams to all nodes that are known, and that of unrouted calls."""
        return self._nodes.streams()

    @property
    def node_ids(self) -> frozenset[str]:
        """The ids of the nodes, as far as known; they do not depend on the seeds."""
        return frozenset() if self._slots is None else self._slots.node_ids

    @property
    def traffic(self) -> Traffic:
        """What went over the connections of all present and former streams."""
        return self._nodes.traffic

    # The life of the streams: see `Nodes`.

    async def run(self) -> None:
        """Keep the streams open for as long as they are needed; ends by cancellation."""
        await self._nodes.run()

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; nothing can be sent any more."""
        self._nodes.fail(error)

    async def close(self, error: ClientClosedError) -> None:
        """Close every stream; what is under way fails with `error`."""
        await self._nodes.close(error)

    def break_down(self, cause: BaseException) -> None:
        """The background task has failed: fail all calls; those that must arrive go out later."""
        self._nodes.break_down(cause)

    def leave_behind(self) -> None:
        """Close the sockets although the event loop was closed."""
        self._nodes.leave_behind()

    def reset(self) -> object:
        """Start afresh for another event loop or process; return what was there."""
        before = self._nodes, self._discovery
        self._begin(self._nodes.traffic)
        return before

    # The map.

    def ask(self) -> None:
        """Ask for the map; if a question is under way, ask once more after it."""
        if self._asking is not None and not self._asking.done():
            self._ask_again = True
        elif self._nodes.running:
            self._round = new_future()
            name = "redisson_py asks for the map of the cluster"
            self._asking = self._nodes.start(self._ask(), name)

    async def _ask(self) -> None:
        attempt = 0
        while True:
            self._ask_again = False
            answer = await self._answer()
            if answer is not None:
                self._take(answer)
                if self._homeless:
                    self._homeless = False
                    self._followers.recover()
            wake(self._round)
            self._round = new_future()
            if self._ask_again:
                await sleep(_QUESTION_GAP_SECONDS)
            elif self._homeless or self._nodes.delays_callers:
                # At first another master may be elected at any moment; later it is less likely.
                pause = pause_before(attempt)
                await sleep(
                    pause if attempt > _QUICK_QUESTIONS else min(pause, LONGEST_PAUSE_SECONDS)
                )
                attempt += 1
            else:
                return

    async def _answer(self, besides: Address | None = None) -> Answer | None:
        """Ask the nodes that are not suspected, or else any but `besides`: see `Discovery.ask`."""
        suspected = self._nodes.suspected | self._cut_off
        answer = await self._discovery.ask(
            self._slots, suspected=suspected, besides=besides, probe=self._sharded is None
        )
        if answer is not None and answer.sharded is not None:
            self._sharded = answer.sharded
        return answer

    def count_replicas(self, stream: Stream, then: Callable[[int | None], None]) -> None:
        """Call `then` with the number of a node's replicas on the map; ask for a newer map."""
        address, slots = self._nodes.address(stream), self._slots
        then(None if address is None or slots is None else len(slots.replicas.get(address, ())))
        self.ask()

    async def confirm(self, stream: Stream) -> None:
        """Return when another node, asked from now on, has said what this one serves."""
        attempt = 0
        while (address := self._nodes.address(stream)) is not None:
            answer = await self._answer(besides=address)
            if answer is not None:
                self._take(answer)
                return
            await sleep(min(pause_before(attempt), LONGEST_PAUSE_SECONDS))
            attempt += 1

    def confirm_late(self, stream: Stream, then: Callable[[], None]) -> None:
        """Call `then` when another node has said what this one serves, unless that is nothing."""

        async def confirm() -> None:
            await self.confirm(stream)
            if self._nodes.address(stream) is not None:
                then()

        self._nodes.start(confirm(), f"redisson_py confirms {stream.where}")

    async def _wait_for_map(self, limit: float) -> None:
        """Return when all unrouted calls were sent on, because their slots have masters.

        Raises:
            ConnectionLostError: No node answered, or a slot has no master.
            BackendError: All nodes refused us.
        """
        self.ask()
        if self._round is not None and not await wait_until(self._round, limit):
            raise self._lost("no node of", f"answered within {limit:.3g} s")
        waiting = [key for each in self._unrouted.pair for key in each.waiting_keys()]
        error = self._discovery.error
        if waiting or (error is not None and self._slots is None):
            raise error or self._lost("no node of", f"serves slot {key_slot(waiting[0])}")

    def _lost(self, who: str, what: str) -> ConnectionLostError:
        text = f"{who} the cluster at {self._unrouted.where} {what}"
        return ConnectionLostError(text, maybe_held=False)

    def _take(self, answer: Answer) -> None:
        """Serve every slot as the map says, unless a newer MOVED says otherwise."""
        if answer.asked_at < self._asked_at:
            # The answer to a later question came first.
            return
        self._asked_at = answer.asked_at
        self._cut_off.clear()
        slots, old = answer.slots, self._slots
        for slot, (address, learned_at) in list(self._redirected.items()):
            if answer.origin == address or answer.asked_at > learned_at + _MOVED_TRUST_SECONDS:
                del self._redirected[slot]
            else:
                slots.move(slot, address)
        self._slots = slots
        moved: set[int] = set()
        # A MOVED may have moved their last slots away.
        losers = dict.fromkeys(self._nodes.without(slots.masters))
        for (before, now), numbers in changes(old or _NO_SLOTS, slots).items():
            stream = self._unrouted if now is None else self._nodes.at(now)
            for number in numbers:
                self._owners[number] = stream
            moved.update(numbers)
            loser = self._unrouted if before is None else self._nodes.get(before)
            if loser is not None:
                losers[loser] = None
        if moved or losers:
            self._follow(moved, losers)

    def _serve_at(self, slot: int, address: Address) -> None:
        """Serve a slot at another node, as a MOVED says."""
        stream, before = self._nodes.at(address), self._owners[slot]
        if before is stream or self._slots is None:
            return
        self._redirected[slot] = (address, loop_time())
        self._slots.move(slot, address)
        self._owners[slot] = stream
        self._moved({slot}, _take(before, lambda key: key_slot(key) == slot))

    def _follow(self, moved: Collection[int], losers: Collection[Stream]) -> None:
        """Send on the calls that wait at streams which lost slots; give up those without slots."""
        assert self._slots is not None
        calls: list[Call] = []
        for loser in losers:
            address = self._nodes.address(loser)
            if address is None or address in self._slots.masters:
                calls += _take(loser, lambda key: key_slot(key) in moved)
            else:
                calls += self._nodes.retire(loser)
        self._moved(moved, calls)

    def _moved(self, slots: Collection[int], calls: Collection[Call]) -> None:
        """Have everything follow that concerns slots with another master: above all some calls."""

        def concerns(key: bytes) -> bool:
            return key_slot(key) in slots

        # Before any of these calls: no message may be missed after one of them is answered.
        self._followers.moved(concerns)
        for call in calls:
            self.send_again(call)
        # Calls that were sent to the new master before, and could not be served there yet.
        for stream in self._nodes.all():
            stream.end_pauses(concerns)

    # Called by streams.

    def send_again(self, call: Call) -> Call:
        """Send a call to the server that has its key now, if it is still wanted."""
        call.asking = False
        return self.stream_for(call.key).sender(call).send(call) if call.wanted else call

    def went_down(self, stream: Stream) -> None:
        """A connection broke, or could not be opened: others may serve its keys by now."""
        address = self._nodes.address(stream)
        if address is None:
            return
        for slot in [slot for slot, (at, _) in self._redirected.items() if at == address]:
            del self._redirected[slot]
        for call in stream.take(lambda key: self.stream_for(key) is not stream.main):
            self.send_again(call)
        self.ask()

    def gone(self, stream: Stream, channel: bytes, refused: Call | None = None) -> None:
        """A node has ended or refused a subscription: its slot moved."""
        if self._followers.gone(stream, channel, refused):
            self._homeless = True
        self.ask()

    def redirected(self, stream: Stream, call: Call, error: ReplyError) -> bool:
        """Handle a call that was refused because its key is elsewhere; return whether it was."""
        text, address = str(error), self._nodes.address(stream)
        if address is None:
            return False
        try:
            redirect = read_redirect(text, address, self._address_map)
        except BackendError as problem:
            log.warning("%s", problem)
            call.fail(problem)
            return True
        if redirect is not None:
            return self._redirect(stream, call, redirect, error)
        if text.startswith("CLUSTERDOWN"):
            self._cut_off.add(address)
            self.ask()
            if call.channel is not None and call.subscribes:
                self.gone(stream, call.channel, call)
                return True
        return False

    def _redirect(self, stream: Stream, call: Call, redirect: Redirect, error: ReplyError) -> bool:
        if redirect.asks:
            if call.splits:
                return False
            if call.script is not None and not call.script.follows_ask:
                stream.delay(call, str(error), f"its slot is moving ({error})")
            elif call.wanted and call.channel is None:
                # Redis 8 replies so to SUNSUBSCRIBE too, and ends the subscription with the move.
                stream.let_go(call)
                call.asking = True
                self._nodes.at(redirect.address).sender(call).send(call)
            return True
        if call.channel is not None:
            # It is subscribed again here, or with the next map.
            self.gone(stream, call.channel, call)
            self._serve_at(redirect.slot, redirect.address)
            return True
        self.ask()
        self._serve_at(redirect.slot, redirect.address)
        if not call.deadline:
            return False
        stream.let_go(call)
        call.errors += 1
        target = self.stream_for(call.key).sender(call)
        if target is stream or call.errors > _QUICK_REDIRECTS:
            target.delay(call, str(error))
        else:
            self.send_again(call)
        return True


def _take(stream: Stream, leaves: Callable[[bytes], bool]) -> list[Call]:
    """Return, in order, the calls that wait for keys that another server has now."""
    return [call for each in stream.pair for call in each.take(leaves)]


_NO_SLOTS = SlotMap([None] * SLOTS, {}, frozenset())
