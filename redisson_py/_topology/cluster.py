"""A Redis cluster: one stream a node, and which of them serves a key just now.

The map of the slots comes from the nodes, when there is a reason to ask: at the start, when a node
sends a call elsewhere or stops a channel, and when a node is silent or gone. Never by the clock.

Invariants:

- Each slot has one stream: that of the node that is its master as far as is known, or the lobby,
  where calls wait until that is known.
- What a stream was given for a slot that moved goes on to the slot's new master, in order. A
  stream whose node serves nothing any more is given up, and what it may still say is not read: it
  may have been frozen for longer than it took to replace it.
- A connection that follows a doubt is used only after another node has said what its node serves.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from redisson_py._addresses import Address, AddressMap
from redisson_py._keys import SLOTS, key_slot
from redisson_py._loop import (
    Future,
    Task,
    discard,
    new_future,
    running_loop,
    sleep,
    start_task,
    wait_for_all,
    wait_until,
    wake,
)
from redisson_py._stream.retry import is_try_again, pause_before
from redisson_py._stream.router import Followers, NewStream
from redisson_py._stream.topology import LONGEST_PAUSE, Elsewhere
from redisson_py._stream.wire import Traffic
from redisson_py._topology.discovery import Answer, Discovery
from redisson_py._topology.lobby import Lobby
from redisson_py._topology.slots import Redirect, SlotMap, changes, read_redirect
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._redis import Connector
    from redisson_py._stream.call import Call, ReplyError
    from redisson_py._stream.stream import Stream

log = logging.getLogger("redisson_py")

#: Seconds for which a MOVED is believed more than the map of a node that may not have heard yet.
_SETTLED = 2.0

#: Redirections of one call that are followed at once; later ones after a pause.
_AT_ONCE = 2

#: Shortest time in seconds between two questions for the map.
_BETWEEN = 0.02


class ClusterRouter:
    """The streams to the nodes of one cluster.

    Args:
        connector: How to connect to a node, wherever it is.
        seeds: The addresses that the user knows.
        address_map: Turns an announced address into one that can be reached from here.
        sharded_pubsub: What the user wants.
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
        self._past = Traffic()
        self._begin()

    def _begin(self) -> None:
        self._discovery = Discovery(
            self._connector, self._seeds, self._address_map, self._open_stream_at
        )
        self._sharded: bool | None = {"on": True, "off": False}.get(self._sharded_pubsub)
        self._slots: SlotMap | None = None
        self._streams: dict[Address, Stream] = {}
        self._addresses: dict[Stream, Address] = {}
        lobby = Lobby(self._seeds, self._connector.connect_timeout, self._wait_for_map)
        self._lobby = self._new_stream(lobby, self, fails_over=True)
        self._owners: list[Stream] = [self._lobby] * SLOTS
        #: What a MOVED has said of a slot, and when: (address, loop time).
        self._redirected: dict[int, tuple[Address, float]] = {}
        #: Nodes have ended subscriptions that are needed again.
        self._homeless = False
        self._tasks: dict[Task, Stream | None] = {}
        self._over: Future[None] | None = None
        self._asking: Task | None = None
        #: Done with the next answer, or when nobody answers: the lobby waits for it.
        self._told: Future[None] | None = None
        self._ask_again = False
        self._closed = False

    # Where things are.

    def stream_for(self, key: bytes) -> Stream:
        """Return the stream to the master of the slot of `key`."""
        return self._owners[key_slot(key)]

    def group(self, key: bytes) -> int:
        """Return the slot of `key`."""
        return key_slot(key)

    def streams(self) -> tuple[Stream, ...]:
        """Return the streams to all nodes that are known, and the lobby."""
        return (self._lobby, *self._streams.values())

    @property
    def node_ids(self) -> frozenset[str]:
        """What the nodes call themselves, as far as is known: the same from whatever seeds."""
        return frozenset() if self._slots is None else self._slots.node_ids

    @property
    def traffic(self) -> Traffic:
        """What went over the connections of all streams there are and were."""
        return sum((stream.whole_traffic for stream in self.streams()), self._past)

    def _open_stream_at(self, address: Address) -> Stream | None:
        stream = self._streams.get(address)
        return stream if stream is not None and stream.ready else None

    def _stream_at(self, address: Address) -> Stream:
        """Return the stream to an address; it connects at first need."""
        stream = self._streams.get(address)
        if stream is None:
            opener = self._connector.at(*address)
            stream = self._new_stream(opener, self, sharded=bool(self._sharded), fails_over=True)
            self._streams[address] = stream
            self._addresses[stream] = address
            self._start(stream)
        return stream

    # The life of the streams.

    async def run(self) -> None:
        """Keep the streams open for as long as they are needed; ends by cancellation."""
        over = self._over = new_future()
        for stream in self.streams():
            self._start(stream)
        try:
            await wait_for_all([over])
            over.result()
        finally:
            self._over = None
            tasks = [*self._tasks, *self._discovery.tasks]
            for task in tasks:
                # An event loop that shuts down has cancelled them already, and once is enough.
                if not task.cancelling():
                    task.cancel()
            await wait_for_all(tasks)

    def _start(self, stream: Stream) -> None:
        if self._over is not None:
            self._spawn(start_task(stream.run(), f"redisson_py {stream.where}"), stream)

    def _spawn(self, task: Task, stream: Stream | None = None) -> None:
        self._tasks[task] = stream
        task.add_done_callback(self._task_done)

    def _task_done(self, task: Task) -> None:
        self._tasks.pop(task, None)
        failure = None if task.cancelled() else task.exception()
        if failure is not None and self._over is not None and not self._over.done():
            # Nothing dies quietly: the whole begins again.
            self._over.set_exception(failure)

    def fail(self, error: ClientClosedError) -> None:
        """Fail what is under way; nothing can be sent any more."""
        self._closed = True
        for stream in self.streams():
            stream.fail(error)

    async def close(self, error: ClientClosedError) -> None:
        """Close every stream; what is under way fails with `error`."""
        self._closed = True
        closing = [stream.close_soon(error) for stream in self.streams()]
        await wait_for_all(
            [down for down in closing if down is not None], self._lobby.reply_timeout
        )

    def break_down(self, cause: BaseException) -> None:
        """The background task has failed: fail what waits; what must arrive goes out later."""
        for stream in self.streams():
            stream.break_down(cause)

    def leave_behind(self) -> None:
        """Close the sockets although the event loop was closed."""
        for stream in self.streams():
            stream.leave_behind()
        for task in [*self._tasks, *self._discovery.tasks]:
            if not task.done():
                discard(task)

    def start_over(self) -> object:
        """Be as new, for another event loop or process; return what was there."""
        before = (self._streams, self._lobby, self._tasks, self._discovery)
        self._past = self.traffic
        self._begin()
        return before

    # The map.

    def ask(self) -> None:
        """Ask for the map, unless that is under way; then once more after that."""
        if self._closed or self._over is None:
            return
        if self._asking is not None and not self._asking.done():
            self._ask_again = True
            return
        self._asking = start_task(self._ask(), "redisson_py asks for the map of the cluster")
        self._spawn(self._asking)

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
            wake(self._told)
            if self._ask_again:
                await sleep(_BETWEEN)
            elif self._homeless or any(each.in_trouble for each in self._streams.values()):
                # Another master may be chosen at any moment.
                await sleep(max(_BETWEEN, min(pause_before(attempt), LONGEST_PAUSE)))
                attempt += 1
            else:
                return

    async def _answer(self, besides: Address | None = None) -> Answer | None:
        """Ask those who are not in doubt, and if they are silent all but the one it is about."""
        doubted = {self._addresses[each] for each in self._streams.values() if each.in_doubt}
        nodes = () if self._slots is None else (*self._slots.masters, *self._slots.nodes())
        itself = set() if besides is None else {besides}
        answer = await self._discovery.ask(nodes, doubted | itself)
        if answer is None and (doubted or itself):
            # All of them were away at once. A node that is alone can only be asked itself.
            answer = await self._discovery.ask(nodes, itself if set(nodes) - itself else ())
        if answer is not None and self._sharded is None:
            try:
                self._sharded = await self._discovery.knows_sharded_pubsub(answer.origin)
            except BackendError as error:
                self._discovery.error = error
                return None
        return answer

    async def confirm(self, stream: Stream) -> None:
        """Return when another node has said, from now on, what this one serves."""
        address, attempt = self._addresses.get(stream), 0
        while address is not None and address in self._addresses.values():
            answer = await self._answer(besides=address)
            if answer is not None:
                self._take(answer)
                return
            await sleep(min(pause_before(attempt), LONGEST_PAUSE))
            attempt += 1

    async def _wait_for_map(self, limit: float) -> None:
        """What waits in the lobby is sent on when its slots have masters.

        Raises:
            Elsewhere: All of it was.
            ConnectionLostError: Nobody has told, or a slot has no master.
            BackendError: All nodes refused us.
        """
        self._told = new_future()
        self.ask()
        if not await wait_until(self._told, limit) and self._discovery.error is None:
            raise ConnectionLostError(
                f"no node of the cluster at {self._lobby.where} answered within {limit:.3g} s",
                maybe_held=False,
            )
        waiting = self._lobby.waiting_keys()
        if not waiting:
            raise Elsewhere
        error = self._discovery.error
        if error is not None:
            raise error
        raise ConnectionLostError(
            f"the cluster at {self._lobby.where} serves no slot {key_slot(waiting[0])}",
            maybe_held=False,
        )

    def _take(self, answer: Answer) -> None:
        """Serve every slot where a node says, unless a newer MOVED says otherwise."""
        slots, old = answer.slots, self._slots
        for slot, (address, learned_at) in list(self._redirected.items()):
            if answer.origin == address or answer.asked_at > learned_at + _SETTLED:
                del self._redirected[slot]
            else:
                slots.move(slot, address)
        self._slots = slots
        moved: set[int] = set()
        # Those who lost their last slot by a MOVED, and are done.
        losers = {
            stream: None
            for address, stream in self._streams.items()
            if address not in slots.masters and stream.idle
        }
        for (before, now), numbers in changes(old or _NOBODY, slots).items():
            stream = self._lobby if now is None else self._stream_at(now)
            for number in numbers:
                self._owners[number] = stream
            moved.update(numbers)
            losers[self._lobby if before is None else self._stream_at(before)] = None
        self._follow(moved, losers)

    def _serve_at(self, slot: int, address: Address) -> None:
        """A node has said that another one serves a slot."""
        stream, before = self._stream_at(address), self._owners[slot]
        if before is stream or self._slots is None:
            return
        self._redirected[slot] = (address, running_loop().time())
        self._slots.move(slot, address)
        self._owners[slot] = stream
        for call in before.take(lambda key: key_slot(key) == slot):
            self.send_again(call)
        self._followers.moved(lambda key: key_slot(key) == slot)

    def _follow(self, moved: Collection[int], losers: Collection[Stream]) -> None:
        """Send on what waits at those who have lost slots; give up who has none any more."""
        assert self._slots is not None
        for loser in losers:
            address = self._addresses.get(loser)
            if address is None or address in self._slots.masters:
                calls = loser.take(lambda key: key_slot(key) in moved)
            else:
                calls = self._retire(loser, address)
            for call in calls:
                self.send_again(call)
        if moved:
            self._followers.moved(lambda key: key_slot(key) in moved)

    def _retire(self, stream: Stream, address: Address) -> list[Call]:
        log.info("Redis at %s serves no slots of the cluster any more", stream.where)
        del self._streams[address], self._addresses[stream]
        calls = stream.retire(f"Redis at {stream.where} serves no slots any more")
        self._past += stream.whole_traffic
        return calls

    # What streams tell.

    def send_again(self, call: Call) -> Call:
        """Send a call to where its key lives now, if it is still wanted."""
        call.asking = False
        return self.stream_for(call.key).send(call) if call.wanted else call

    def went_down(self, stream: Stream) -> None:
        """A connection broke, or could not be opened: others may serve its keys by now."""
        address = self._addresses.get(stream)
        if address is None:
            return
        for slot in [slot for slot, (at, _) in self._redirected.items() if at == address]:
            del self._redirected[slot]
        for call in stream.take(lambda key: self.stream_for(key) is not stream):
            self.send_again(call)
        self.ask()

    def gone(self, stream: Stream, channel: bytes) -> None:
        """A node has ended a subscription: its slot moved."""
        if self._followers.gone(stream, channel):
            self._homeless = True
        self.ask()

    def redirected(self, stream: Stream, call: Call, error: ReplyError) -> bool:
        """See to a call that was refused because its key lives elsewhere; return whether it is."""
        text, address = str(error), self._addresses.get(stream)
        if address is None:
            return False
        try:
            redirect = read_redirect(text, address, self._address_map)
        except BackendError as problem:
            log.warning("%s", problem)
            return False
        if redirect is not None:
            return self._redirect(stream, call, redirect, error)
        if text.startswith("CLUSTERDOWN"):
            self.ask()
        if call.channel is not None and is_try_again(text):
            self.gone(stream, call.channel)
            return True
        return False

    def _redirect(self, stream: Stream, call: Call, redirect: Redirect, error: ReplyError) -> bool:
        if redirect.asks:
            if call.splits:
                return False
            if call.script is not None and not call.script.follows_ask:
                stream.delay(call, str(error))
            elif call.wanted:
                stream.let_go(call)
                call.asking = True
                self._stream_at(redirect.address).send(call)
            return True
        if call.channel is not None:
            # Subscribed again with the next map, or by this.
            self.gone(stream, call.channel)
        self._serve_at(redirect.slot, redirect.address)
        self.ask()
        if call.channel is not None:
            return True
        if not call.deadline:
            return False
        stream.let_go(call)
        call.errors += 1
        target = self.stream_for(call.key)
        if target is stream or call.errors > _AT_ONCE:
            target.delay(call, str(error))
        else:
            self.send_again(call)
        return True


_NOBODY = SlotMap([None] * SLOTS, {}, frozenset())
