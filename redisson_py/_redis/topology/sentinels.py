"""All Sentinels of one service: asks them together, and adds those that they name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from redisson_py._addresses import Address, AddressMap, write_address
from redisson_py._loop import Future, Task, end_tasks, loop_time, wait_for_all
from redisson_py._redis.topology.choice import Failure, Knowledge, Named, not_found, read_replicas
from redisson_py._redis.topology.sentinel import Question, Sentinel
from redisson_py.errors import BackendError, ClientClosedError

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import Connector

log = logging.getLogger("redisson_py")

#: Seconds that a Sentinel has for an answer.
ASK_SECONDS = 0.5

#: The most Sentinels whose connections are kept; nobody runs a tenth of these for one service.
_MOST_SENTINELS = 64

_NAME = "client_name"


class Sentinels:
    """All Sentinels of one service: those that the user names, and those that they name.

    Args:
        connector: The settings for Sentinels.
        seeds: Where the first ones are.
        service: The name of the master.
        reply_timeout: As for a `Sentinel`.
        address_map: Changes the addresses that they announce, their own and the master's.
        on_switch: Called with the new master, mapped, when one says `+switch-master`.
        kept: As for a `Sentinel`.
        needed: As for a `Sentinel`.
    """

    def __init__(
        self,
        connector: Connector,
        seeds: Iterable[Address],
        service: str,
        reply_timeout: float,
        *,
        address_map: AddressMap | None = None,
        on_switch: Callable[[Address, str], None],
        kept: Callable[[], bool] = lambda: True,
        needed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.service = service
        # Naming the connection would need one more permission.
        settings = {name: value for name, value in connector.settings.items() if name != _NAME}
        self._connector = replace(connector, settings=settings)
        self._seeds = tuple(dict.fromkeys(seeds))
        self._reply_timeout = reply_timeout
        self._address_map = address_map
        self._on_switch = on_switch
        self._kept = kept
        self._needed = needed
        self._all: dict[Address, Sentinel] = {}
        #: Those that sent `+switch-master` and were not asked since: we wait for their answers.
        self._informants: set[Sentinel] = set()
        self._knowledge = Knowledge()
        self._runs = False
        self._closed = False
        self.reset()

    def __repr__(self) -> str:
        seeds = ", ".join(write_address(*seed) for seed in self._seeds)
        return f"{self.service} (Sentinel at {seeds})"

    @property
    def known(self) -> tuple[Sentinel, ...]:
        """Every Sentinel we know of."""
        return tuple(self._all.values())

    async def master(self, seconds: float) -> Named:
        """Ask all at once; return the master, its address mapped.

        It returns as soon as most have answered, so that a silent one costs nothing. Those that
        have announced a new master must be among them.

        Raises:
            ConnectionLostError: No Sentinel names it now.
            BackendError: Most refuse us, or do not know the service.
        """
        end = loop_time() + min(seconds, ASK_SECONDS)
        asked: dict[Sentinel, Question] = {}
        while True:
            left = end - loop_time()
            for sentinel in self.known:
                if self._runs and sentinel.has_failed:
                    self._start(sentinel)
                if sentinel not in asked and left > 0:
                    asked[sentinel] = Question(sentinel, left)
            answered = {each: q for each, q in asked.items() if q.done.done()}
            for question in answered.values():
                self._meet(question.others())
            answers = {each: question.answer() for each, question in answered.items()}
            named = [each for each in answers.values() if isinstance(each, Named)]
            complete = len(answered) == len(asked) == len(self._all)
            most = 2 * len(named) > len(self._all) and self._informants <= answered.keys()
            if complete or left <= 0 or most:
                break
            waiting = [question.done for question in asked.values() if not question.done.done()]
            await wait_for_all(waiting, left, first=True)
        # We wait for a silent one once, not each time from now on.
        self._informants -= asked.keys()
        for sentinel in set(self._all.values()) - asked.keys():
            sentinel.keep()
        if most:
            self._part(answered.values())
        newest = self._knowledge.learn(named, loop_time())
        for sentinel in asked.keys() - answered.keys():
            # It may be the only one that knows of a failover.
            asked[sentinel].done.add_done_callback(partial(self._late, sentinel, asked[sentinel]))
        if newest is None:
            raise self._unknown(answers, asked.keys() - answered.keys())
        there = self._mapped(newest.address)
        return Named(there, newest.epoch, newest.promoted, newest.sentinel)

    def count_replicas(self, then: Callable[[int | None], None]) -> None:
        """Call `then` with the number of replicas that they reach; None if none of them knows."""
        words = ("SENTINEL", "REPLICAS", self.service)
        streams = [each.stream for each in self.known if each.stream.ready]
        replies = [stream.command(words, ASK_SECONDS).future for stream in streams]

        def count(done: Future[list[Any | BaseException]]) -> None:
            counts = [read_replicas(reply) for reply in done.result()]
            # The highest number: some of them may not have found a replica yet.
            then(max((each for each in counts if each is not None), default=None))

        asyncio.gather(*replies, return_exceptions=True).add_done_callback(count)

    def start(self) -> None:
        """Let the streams run, in tasks of the running loop."""
        self._runs = True
        for sentinel in self.known:
            self._start(sentinel)

    async def stop(self) -> None:
        """End these tasks."""
        self._runs = False
        await end_tasks([each.task for each in self.known if each.task is not None])

    async def close(self, error: ClientClosedError) -> None:
        """Close every stream."""
        self._closed = True
        await asyncio.gather(*(sentinel.close(error) for sentinel in self.known))

    def fail(self, error: ClientClosedError) -> None:
        """Refuse everything from now on."""
        self._closed = True
        for sentinel in self.known:
            sentinel.fail(error)

    def leave_behind(self) -> None:
        """Close the sockets of an event loop that was closed."""
        self._closed = True
        for sentinel in self.known:
            sentinel.leave_behind()

    def reset(self) -> object:
        """Begin again with streams that were never opened; return those that were there."""
        before, self._all = self._all, {}
        self._informants, self._runs, self._closed = set(), False, False
        for address in before or self._seeds:
            self._add(address)
        return before

    def _add(self, address: Address) -> None:
        sentinel = self._all[address] = Sentinel(
            self._connector.at(*address),
            self.service,
            self._reply_timeout,
            on_switch=self._switched,
            kept=self._kept,
            needed=self._needed,
        )
        if self._runs:
            self._start(sentinel)

    def _start(self, sentinel: Sentinel) -> None:
        sentinel.start().add_done_callback(_ended)

    def _meet(self, announced: Iterable[Address]) -> None:
        """Add the Sentinels that another one names."""
        if self._closed:
            return
        peers = {sentinel.peer for sentinel in self.known}
        for each in announced:
            address = self._mapped(each)
            if address not in self._all and address not in peers:
                if len(self._all) >= _MOST_SENTINELS:
                    log.debug("asking only %d Sentinels of %s", _MOST_SENTINELS, self.service)
                    return
                self._add(address)

    def _part(self, questions: Iterable[Question]) -> None:
        """Forget those that no other names any more, except the seeds."""
        named = {self._mapped(each) for q in questions for each in q.others()}
        for address in [a for a in self._all if a not in named and a not in self._seeds]:
            sentinel = self._all[address]
            if sentinel.stream.ready:
                # It is alive, and may be the only one that names the others.
                continue
            del self._all[address]
            self._informants.discard(sentinel)
            sentinel.fail(ClientClosedError("the other Sentinels no longer know it"))
            if sentinel.task is not None:
                sentinel.task.cancel()

    def _switched(self, sentinel: Sentinel, announced: Address) -> None:
        self._informants.add(sentinel)
        try:
            address = self._mapped(announced)
        except BackendError:
            # The next attempt to connect fails with the same error.
            address = announced
        self._on_switch(address, sentinel.where)

    def _late(self, sentinel: Sentinel, question: Question, _: object) -> None:
        """Take an answer that came after most others."""
        answer = question.answer()
        if isinstance(answer, Named) and not self._closed and self._knowledge.is_news(answer):
            self._switched(sentinel, answer.address)

    def _mapped(self, announced: Address) -> Address:
        return announced if self._address_map is None else self._address_map(*announced)

    def _unknown(
        self, answers: dict[Sentinel, Named | Failure], silent: Iterable[Sentinel]
    ) -> BackendError:
        failures = [each for each in answers.values() if isinstance(each, Failure)]
        failures += [Failure(f"Sentinel at {each.where} is silent", False) for each in silent]
        error = not_found(f"no Sentinel names the master of {self.service!r}", failures)
        error.__cause__ = failures[0].cause if len(failures) == 1 else None
        return error


def _ended(task: Task) -> None:
    """Log the error of a task that failed."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.critical("the background task of a Sentinel failed", exc_info=error)
