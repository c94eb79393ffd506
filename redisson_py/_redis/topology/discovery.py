"""Asks the nodes of a cluster which node serves which slot.

At most three nodes at a time are asked, one a moment after the other, and the first answer counts.
Nodes with an open connection go first. Others are asked over a connection for this one question.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from random import randrange
from typing import TYPE_CHECKING, NamedTuple

from redisson_py._addresses import Address, AddressMap, AddressMapError, write_address
from redisson_py._loop import Task, loop_time, wait_for_all, wait_until
from redisson_py._redis.stream.call import Call, ReplyError, without_user
from redisson_py._redis.topology.slots import SlotMap
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._redis.redis_py import Connector
    from redisson_py._redis.topology.nodes import Nodes

log = logging.getLogger("redisson_py")

#: How many nodes are asked at the same time.
_NODES_ASKED_TOGETHER = 3

#: Seconds between the first question and the second, and so on: usually one is enough.
_QUESTION_GAP_SECONDS = 0.1

_MAP = (("CLUSTER", "SLOTS"),)
_QUESTIONS = (*_MAP, ("PUBSUB", "SHARDNUMSUB", "0"))

#: Seconds that a node has for its answer, connecting included. They double each time that no node
#: answered: when a hundred clients start at once, all answers are slow.
_PATIENCE_SECONDS = 0.5
_LONGEST_PATIENCE_SECONDS = 4.0

#: Seconds for which a seed is ignored that belongs to another cluster. Longer than a cluster takes
#: to restart; after that, ours may have been set up anew elsewhere, and must be found there.
_STRANGER_SECONDS = 10.0


class Answer(NamedTuple):
    """A map of the slots.

    Attributes:
        slots: The map.
        origin: The node that said so.
        asked_at: When it was asked, in loop time.
        sharded: Whether we may use sharded pub/sub at that node; None if that was not asked.
    """

    slots: SlotMap
    origin: Address
    asked_at: float
    sharded: bool | None


class Discovery:
    """Asks nodes for the map.

    Args:
        connector: How to connect to a node, wherever it is.
        seeds: The addresses that the user knows.
        address_map: Turns an announced address into one that can be reached from here.
        nodes: The streams there are.

    Attributes:
        error: Why no node answered the last question.
    """

    def __init__(
        self,
        connector: Connector,
        seeds: Sequence[Address],
        address_map: AddressMap | None,
        nodes: Nodes,
    ) -> None:
        self._connector = connector
        self._seeds = seeds
        self._address_map = address_map
        self._nodes = nodes
        # Clients that start at the same time should not all ask the same node.
        self._rotation = randrange(1000)
        self._patience = _PATIENCE_SECONDS
        #: Since when only nodes of other clusters have answered, in loop time.
        self._strangers_since: float | None = None
        self.error: BackendError | None = None

    async def ask(
        self,
        known: SlotMap | None,
        *,
        suspected: Collection[Address] = (),
        besides: Address | None = None,
        probe: bool = False,
    ) -> Answer | None:
        """Return what a node of the cluster answers, or None if none answered in time.

        A seed that is not on the map may serve another cluster by now, so it is asked last.

        Args:
            known: The map so far.
            suspected: The nodes to ask only if no other answers.
            besides: The node not to ask at all, unless the cluster has no other.
            probe: Ask for sharded pub/sub as well.
        """
        members = [*self._seeds] if known is None else [*known.masters, *known.nodes()]
        others = [address for address in dict.fromkeys(members) if address != besides] or members
        trusted = [address for address in others if address not in suspected]
        seeds = [address for address in self._seeds if address not in {*members, besides}]
        answer = await self._first_answer(trusted, probe)
        if answer is None and len(others) > len(trusted):
            # The trusted nodes do not answer either.
            answer = await self._first_answer(others, probe)
        if answer is None and seeds:
            answer = await self._first_answer(seeds, probe)
        if answer is None:
            return None
        if known is not None and answer.origin in seeds and self._is_strange(answer, known):
            return None
        self._strangers_since = None
        return answer

    def _is_strange(self, answer: Answer, known: SlotMap) -> bool:
        """Return whether this is the map of another cluster while ours may come back soon."""
        named = answer.slots.node_ids
        if not (named and known.node_ids) or not named.isdisjoint(known.node_ids):
            return False
        present = loop_time()
        if self._strangers_since is None:
            self._strangers_since = present
            text = "Redis at %s knows none of the cluster's nodes: it may belong to another cluster"
            log.warning(text, write_address(*answer.origin))
        return present < self._strangers_since + _STRANGER_SECONDS

    async def _first_answer(self, candidates: Sequence[Address], probe: bool) -> Answer | None:
        """Return the first answer of some of these nodes, or None if none answered in time."""
        if not candidates:
            return None
        questions: list[Task] = []
        answers: list[Answer] = []
        errors: list[BackendError] = []
        chosen = list(self._choose(candidates))
        late = False
        try:
            while not answers:
                if chosen and not late:
                    address = chosen.pop(0)
                    name = f"redisson_py asks {write_address(*address)}"
                    work = self._ask_one(address, probe, answers, errors)
                    questions.append(self._nodes.start(work, name))
                open_ones = [each for each in questions if not each.done()]
                if open_ones:
                    until = loop_time() + _QUESTION_GAP_SECONDS
                    await wait_for_all(
                        open_ones, _QUESTION_GAP_SECONDS if chosen else None, first=True
                    )
                    # Then the event loop is busy, and one more question would make that worse.
                    late = loop_time() > until + _QUESTION_GAP_SECONDS / 2
                elif chosen:
                    late = False
                else:
                    break
        finally:
            for question in questions:
                question.cancel()
        if answers:
            self.error, self._patience = None, _PATIENCE_SECONDS
            return answers[0]
        self._patience = min(2 * self._patience, _LONGEST_PATIENCE_SECONDS)
        # First an error that the user has to fix, then one that may pass.
        ours = [error for error in errors if isinstance(error, AddressMapError)]
        lost = [error for error in errors if isinstance(error, ConnectionLostError)]
        self.error = (ours or lost or errors or [None])[0]
        return None

    def _choose(self, candidates: Sequence[Address]) -> Sequence[Address]:
        """Return the nodes to ask this time: connected ones, else each in its turn."""
        connected = [each for each in candidates if self._nodes.connected(each)][
            :_NODES_ASKED_TOGETHER
        ]
        if connected and self.error is None:
            return connected
        others = [each for each in candidates if each not in connected]
        if not others:
            return connected
        start = self._rotation % len(others)
        self._rotation += _NODES_ASKED_TOGETHER
        return [*connected, *others[start:], *others[:start]][:_NODES_ASKED_TOGETHER]

    async def _ask_one(
        self, address: Address, probe: bool, answers: list[Answer], errors: list[BackendError]
    ) -> None:
        asked_at, sharded = loop_time(), None
        try:
            stream = self._nodes.connected(address)
            if stream is not None:
                # `must` without a deadline: sent on this connection only.
                question = stream.send(Call(("CLUSTER", "SLOTS"), 0, must=True))
                if not await wait_until(question.future, self._patience):
                    text = f"Redis at {write_address(*address)} did not answer CLUSTER SLOTS"
                    raise ConnectionLostError(text, maybe_held=False)
                reply = question.future.result()
            else:
                from redisson_py._redis.redis_py import ask_once

                reply, *others = await ask_once(
                    self._connector.at(*address), self._patience, *(_QUESTIONS if probe else _MAP)
                )
                if isinstance(reply, BackendError):
                    raise reply
                for other in others:
                    sharded = _has_sharded_pubsub(other, address)
        except ClientClosedError:
            return
        except BackendError as error:
            errors.append(_named(error, address))
            return
        try:
            slots = SlotMap.parse(reply, address, self._address_map)
        except AddressMapError as error:
            errors.append(error)
            return
        except BackendError as error:
            text = f"Redis at {write_address(*address)} returned an invalid slot map: {error}"
            errors.append(BackendError(text))
            return
        if slots.masters:
            answers.append(Answer(slots, address, asked_at, sharded))
        else:
            # A new node, or one that was reset, does not know the cluster.
            text = f"Redis at {write_address(*address)} serves no slots of a cluster"
            errors.append(ConnectionLostError(text, maybe_held=False))


def _has_sharded_pubsub(reply: object, address: Address) -> bool:
    """Return whether a node knows sharded pub/sub, and lets us use it.

    Redisson asks the same question and takes any error for a no, so both use the same channels.
    """
    if not isinstance(reply, BackendError):
        return True
    text = without_user(str(reply))
    if "shardnumsub" in text:
        # Clients with this permission use other channels. An error that names no subcommand comes
        # from Redis 6.2, which has no sharded pub/sub.
        where = write_address(*address)
        log.warning("Redis at %s refused sharded pub/sub, so plain is used: %s", where, text)
    return False


def _named(error: BackendError, address: Address) -> BackendError:
    """Return an error that says which node it is about."""
    where = write_address(*address)
    if not isinstance(error, ReplyError) and where in str(error):
        return error
    if isinstance(error, ConnectionLostError):
        return ConnectionLostError(f"Redis at {where}: {error}", maybe_held=False)
    text = without_user(str(error))
    if "cluster support disabled" in text:
        text = "its cluster support is disabled: redis+cluster:// needs the nodes of a cluster"
    return BackendError(f"Redis at {where} refused CLUSTER SLOTS: {text}")
