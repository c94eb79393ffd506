"""Asking the nodes of a cluster who serves what.

The first answer counts, of up to three nodes that are asked at the same time; those to which a
connection is open go first. Others are asked over a connection for this one question.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from redisson_py._addresses import Address, AddressMap, write_address
from redisson_py._loop import Task, running_loop, start_task, wait_for_all, wait_until
from redisson_py._stream.call import Call, ReplyError, without_user
from redisson_py._topology.slots import SlotMap
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError

if TYPE_CHECKING:
    from redisson_py._redis import Connector
    from redisson_py._topology.nodes import Nodes

log = logging.getLogger("redisson_py")

#: Nodes that are asked at the same time.
_AT_ONCE = 3

#: Seconds that a node has for its answer, connecting included.
PATIENCE = 0.5


class Answer(NamedTuple):
    """A map of the slots.

    Attributes:
        slots: The map.
        origin: Who said so.
        asked_at: When it was asked, in loop time.
    """

    slots: SlotMap
    origin: Address
    asked_at: float


class Discovery:
    """Asks nodes for the map.

    Args:
        connector: How to connect to a node, wherever it is.
        address_map: Turns an announced address into one that can be reached from here.
        nodes: The streams there are.

    Attributes:
        error: Why nobody answered the last question.
    """

    def __init__(
        self,
        connector: Connector,
        address_map: AddressMap | None,
        nodes: Nodes,
    ) -> None:
        self._connector = connector
        self._address_map = address_map
        self._nodes = nodes
        self._turn = 0
        self.error: BackendError | None = None

    async def ask(self, candidates: Sequence[Address]) -> Answer | None:
        """Return the first answer of some of these nodes, or None if nobody answered in time."""
        questions: list[Task] = []
        answers: list[Answer] = []
        errors: list[BackendError] = []
        for address in self._choose(candidates):
            name = f"redisson_py asks {write_address(*address)}"
            question = start_task(self._ask_one(address, answers, errors), name)
            questions.append(self._nodes.keep(question))
        try:
            while not answers and (open_ones := [each for each in questions if not each.done()]):
                await wait_for_all(open_ones, first=True)
        finally:
            for question in questions:
                question.cancel()
        if answers:
            self.error = None
            return answers[0]
        # One that may become better, if there is one.
        lost = [error for error in errors if isinstance(error, ConnectionLostError)]
        self.error = (lost or errors or [None])[0]
        return None

    def _choose(self, candidates: Sequence[Address]) -> Sequence[Address]:
        """Return whom to ask this time: who is connected, or else each in its turn."""
        if len(candidates) <= _AT_ONCE:
            return candidates
        connected = [each for each in candidates if self._nodes.connected(each)][:_AT_ONCE]
        if connected and self.error is None:
            return connected
        others = [each for each in candidates if each not in connected] or connected
        self._turn += _AT_ONCE
        start = self._turn % len(others)
        return [*dict.fromkeys([*connected, *others[start:], *others[:start]])][:_AT_ONCE]

    async def _ask_one(
        self, address: Address, answers: list[Answer], errors: list[BackendError]
    ) -> None:
        asked_at = running_loop().time()
        try:
            stream = self._nodes.connected(address)
            if stream is not None:
                # On this connection or not at all: no other node is to answer for this one.
                question = stream.send(Call(("CLUSTER", "SLOTS"), 0, must=True))
                if not await wait_until(question.future, PATIENCE):
                    text = f"Redis at {write_address(*address)} did not answer CLUSTER SLOTS"
                    raise ConnectionLostError(text, maybe_held=False)
                reply = question.future.result()
            else:
                from redisson_py._redis import ask_once

                reply = await ask_once(self._connector.at(*address), PATIENCE, "CLUSTER", "SLOTS")
            slots = SlotMap.parse(reply, address, self._address_map)
        except ClientClosedError:
            return
        except BackendError as error:
            errors.append(_named(error, address))
            return
        if slots.masters:
            answers.append(Answer(slots, address, asked_at))
        else:
            # A node that was reset, or is new, knows nothing of the cluster.
            text = f"Redis at {write_address(*address)} serves no slots of a cluster"
            errors.append(ConnectionLostError(text, maybe_held=False))

    async def knows_sharded_pubsub(self, address: Address) -> bool:
        """Return whether a node knows sharded pub/sub, and lets us use it.

        Redisson asks the same and takes any error for a no, so that both speak alike.

        Raises:
            ConnectionLostError: It did not answer.
        """
        from redisson_py._redis import ask_once

        try:
            await ask_once(self._connector.at(*address), PATIENCE, "PUBSUB", "SHARDNUMSUB", "0")
        except ConnectionLostError:
            raise
        except BackendError as error:
            text = without_user(str(error))
            if "shardnumsub" in text:
                # Messages go the other way then than those of clients that may. What names no
                # subcommand is Redis 6.2, which has none of this.
                where = write_address(*address)
                log.warning("Redis at %s refused sharded pub/sub, plain is used: %s", where, text)
            return False
        return True


def _named(error: BackendError, address: Address) -> BackendError:
    """Return an error that says which node it is about."""
    where = write_address(*address)
    if not isinstance(error, ReplyError) and where in str(error):
        return error
    text = without_user(str(error))
    if "cluster support disabled" in text:
        text = "cluster support is disabled there: redis+cluster:// is for nodes of a cluster"
    return BackendError(f"Redis at {where} refused CLUSTER SLOTS: {text}")
