"""Decides which server is the master, from what several Sentinels say. No I/O.

A Sentinel that has not heard of a failover yet names the old master. `config-epoch` grows with each
failover, so the answer with the highest epoch is the newest, in whatever order answers come.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from redisson_py._addresses import Address
from redisson_py.errors import BackendError, ConnectionLostError

#: Seconds for which an answer with an older epoch does not replace a newer one that no Sentinel
#: repeats. Sentinels inform each other every two seconds, so if only an older epoch is known after
#: this time, they were reset.
MEMORY_SECONDS = 10.0

#: No number that a Sentinel says has more digits.
_DIGITS = re.compile(r"[0-9]{1,20}")

#: The flags of an instance that a Sentinel does not reach.
_OUT_OF_REACH = frozenset({"disconnected", "o_down", "s_down"})


@dataclass(frozen=True, slots=True)
class Named:
    """The master according to one Sentinel.

    Attributes:
        address: Where it is.
        epoch: The epoch of the failover that made it master.
        promoted: The failover that makes it master is not over yet; this Sentinel leads it.
        sentinel: Address of the Sentinel, as text.
    """

    address: Address
    epoch: int
    promoted: bool = False
    sentinel: str = ""


def fields(reply: object) -> dict[str, str]:
    """Return the fields of an instance as a Sentinel describes it, in RESP3 or RESP2."""
    if isinstance(reply, list):
        pairs = zip(reply[::2], reply[1::2], strict=False)
        return {_text(name): _text(value) for name, value in pairs}
    if not isinstance(reply, dict):
        return {}
    return {_text(name): _text(value) for name, value in reply.items()}


def read_address(host: object, port: object) -> Address | None:
    """Return an announced address; None if it is not one."""
    name, number = _text(host), _number(port)
    return (name, number) if name and number is not None and 0 < number < 2**16 else None


def read_named(master: object, address: object, sentinel: str = "") -> Named | None:
    """Return the master that a Sentinel names.

    Args:
        master: Its answer to SENTINEL MASTER.
        address: Its answer to SENTINEL GET-MASTER-ADDR-BY-NAME, which was sent after that.
        sentinel: Its address.
    """
    known = fields(master)
    if not isinstance(address, list) or len(address) < 2:
        return None
    there = read_address(address[0], address[1])
    if there is None:
        return None
    epoch = _number(known.get("config-epoch"))
    old = read_address(known.get("ip"), known.get("port"))
    return Named(there, epoch or 0, old != there, sentinel)


def read_sentinels(reply: object) -> list[Address]:
    """Return where the other Sentinels are, from an answer to SENTINEL SENTINELS."""
    if not isinstance(reply, list):
        return []
    found = (fields(each) for each in reply)
    addresses = (read_address(each.get("ip"), each.get("port")) for each in found)
    return [address for address in addresses if address is not None]


def read_replicas(reply: object) -> int | None:
    """Return how many replicas a Sentinel reaches, from an answer to SENTINEL REPLICAS.

    None if the answer is malformed. Sentinels list replicas out of reach too; these do not count.
    """
    if not isinstance(reply, list):
        return None
    flags = (fields(each).get("flags", "").split(",") for each in reply)
    return sum(_OUT_OF_REACH.isdisjoint(each) for each in flags)


def read_switch(payload: bytes, service: str) -> Address | None:
    """Return the new master of a `+switch-master` message; None if it is about another service."""
    words = _text(payload).split()
    if len(words) != 5 or words[0] != service:
        return None
    return read_address(words[3], words[4])


def choose(answers: Iterable[Named]) -> Named | None:
    """Return the newest answer.

    Of answers with the same epoch, the promoted master, which only the leader of the failover
    knows at first, precedes the others; then the master that more Sentinels name.
    """
    answers = list(answers)
    names = Counter(answer.address for answer in answers)
    return max(
        answers,
        key=lambda answer: (answer.epoch, answer.promoted, names[answer.address]),
        default=None,
    )


class Knowledge:
    """The newest answer so far; needed when only Sentinels answer that lag behind."""

    def __init__(self) -> None:
        self._last: Named | None = None
        self._until = 0.0

    def learn(self, answers: Iterable[Named], present: float) -> Named | None:
        """Return the master, from the present answers and the newest one before.

        None if there is no answer now.
        """
        newest, last = choose(answers), self._last
        if newest is None:
            return None
        if last is not None and newest.epoch < last.epoch and present < self._until:
            return last
        self._last, self._until = newest, present + MEMORY_SECONDS
        return newest

    def is_news(self, answer: Named) -> bool:
        """Return whether an answer knows of a later failover than the newest so far."""
        return self._last is None or answer.epoch > self._last.epoch


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one server did not help to find the master.

    Attributes:
        text: What is wrong, naming the server.
        final: It will not change until somebody changes something.
        cause: The error behind it.
    """

    text: str
    final: bool
    cause: BaseException | None = None


def not_found(what: str, failures: list[Failure]) -> BackendError:
    """Return the error of a failed search: final if the failures of most servers are final."""
    text = f"{what}: {'; '.join(failure.text for failure in failures)}"
    if 2 * sum(failure.final for failure in failures) > len(failures):
        return BackendError(text)
    return ConnectionLostError(text, maybe_held=False)


def _number(value: object) -> int | None:
    """Return a number that is not negative; None if it is not one, or has too many digits."""
    found = _DIGITS.fullmatch(_text(value))
    return None if found is None else int(found[0])


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)
