"""What the scripts of semaphores promise, in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass
class Model:
    """A counter; who has how many units; whose lease is over; whose acquire comes too late.

    Attributes:
        total: The units there are, taken or not, by everything but acquiring and giving back.
        away: How many Redisson has taken of a plain semaphore.
        note: How many there are by what our scripts know, also of one that is gone.
        served: By client, the number of its last call with a receipt and the answer.
        records_all: Redisson records what it takes as well.
    """

    records_all: ClassVar = False
    value: int | None = None
    total: int = 0
    away: int = 0
    note: int | None = None
    held: dict[Any, int] = field(default_factory=dict)
    ended: set[Any] = field(default_factory=set)
    endless: set[Any] = field(default_factory=set)
    gone: set[Any] = field(default_factory=set)
    heard: list[int] = field(default_factory=list)
    served: dict[str, tuple[int, Any]] = field(default_factory=dict)

    def tell(self, number: int) -> None:
        if number > 0:
            self.heard.append(number)

    def void(self) -> None:
        """What was taken from a semaphore that is gone counts no more."""
        self.held.clear()
        self.ended.clear()
        self.endless.clear()

    def make(self, units: int) -> None:
        self.void()
        self.value, self.total, self.away, self.note = units, units, 0, units

    def delete(self) -> None:
        self.value, self.away = None, 0

    def change(self, units: int) -> None:
        self.total += units
        self.note = None if self.note is None else self.note + units

    def other(self, named: int) -> str | None:
        """Return the reply to whoever names a number of permits; None if no other is known."""
        assert self.value is not None
        known = self.value + sum(self.held.values())
        if known < named and not self.records_all:
            note = self.note
            known = note if note is not None and known <= note < named else named
        return None if known == named else str(-10 - max(0, known))

    def drop(self, mark: Any) -> int:
        self.ended.discard(mark)
        self.endless.discard(mark)
        return self.held.pop(mark, 0)

    def ends_sooner(self, mark: Any) -> bool:
        """Whether a lease set now ends sooner than what was there."""
        endless = mark in self.endless
        self.endless.discard(mark)
        return endless

    def reclaim(self, reclaims: int) -> int:
        assert self.value is not None
        back = sum(self.drop(mark) for mark in sorted(self.ended)[:reclaims])
        self.value += back
        return back

    def available(self, reclaims: int) -> int:
        if self.value is None:
            return 0
        if self.reclaim(reclaims):
            self.tell(self.value)
        return self.value

    def receipted(self, client: str, calls: int, change: Callable[[], Any]) -> Any:
        """Do what no earlier call of the same number did; None for one whose answer is past."""
        number, answer = self.served.get(client, (0, None))
        if calls <= number:
            return answer if calls == number else "past"
        self.served[client] = calls, change()
        return self.served[client][1]


class Plain(Model):
    """Marks are owners, with as many units as they took."""

    def acquire(
        self, owner: str, units: int, start: int, reclaims: int, compares: bool = False
    ) -> str:
        if self.value is not None and owner in self.held:
            self.ended.discard(owner)
            return "granted"
        if owner in self.gone:
            return "void"
        if compares and self.value is not None and (other := self.other(start)):
            return other
        before = self.value or 0
        if self.value is None:
            self.void()
            if start < 0:
                return "busy"
            self.make(start)
        self.reclaim(reclaims)
        assert self.value is not None
        granted = self.value >= units
        if granted:
            self.value -= units
            self.held[owner] = units
        if self.value > before:
            self.tell(self.value)
        return "granted" if granted else "busy"

    def release(self, owner: str, units: int, leaves: bool) -> str:
        if leaves:
            self.gone.add(owner)
        if owner not in self.held or self.value is None:
            self.drop(owner)
            return "nothing"
        back = self.held[owner] - units
        if back > 0:
            self.value += back
            self.held[owner] = units
            self.tell(self.value)
        if units == 0:
            self.drop(owner)
        return "part" if units else "all"

    def add(self, units: int, creates: int) -> int | None:
        if self.value is None:
            if not creates:
                self.void()
                return None
            self.make(0)
        assert self.value is not None
        self.value += units
        self.change(units)
        self.tell(self.value)
        return self.value

    def set(self, units: int) -> int:
        if self.value is not None:
            return int(self.other(units) or 0)
        self.make(units)
        self.tell(units)
        return 1

    def drain(self) -> int:
        if self.value is None:
            return 0
        self.reclaim(100)
        drained, self.value = self.value, 0
        self.change(-drained)
        return drained


class Permits(Model):
    """Marks are ids, each with one unit; a list of them is taken at once."""

    records_all = True

    def acquire(
        self, ids: tuple[bytes, ...], start: int, reclaims: int, compares: bool = False
    ) -> str:
        there = [each for each in ids if each in self.held] if self.value is not None else []
        if len(there) == len(ids):
            self.ended -= {*ids}
            return "granted"
        if there or ids[0] in self.gone:
            return "void"
        if compares and self.value is not None and (other := self.other(start)):
            return other
        if self.value is None:
            self.void()
            if start < 0:
                return "busy"
            self.make(start)
            self.tell(start)
        elif self.reclaim(reclaims):
            self.tell(self.value)
        assert self.value is not None
        if self.value < len(ids):
            return "busy"
        self.value -= len(ids)
        self.held |= dict.fromkeys(ids, 1)
        return "granted"

    def release(self, ids: tuple[bytes, ...], leaves: bytes | None) -> str:
        if leaves:
            self.gone.add(leaves)
        ended = bool(self.ended & {*ids})
        back = sum(self.drop(each) for each in ids)
        if self.value is None or not back:
            return "nothing"
        self.value += back
        self.tell(self.value)
        return "over" if ended else "all"

    def release_all(self, ids: tuple[bytes, ...]) -> int:
        if self.value is None or not ({*ids} <= self.held.keys() - self.ended):
            return 0
        if self.reclaim(100):
            self.tell(self.value)
        back = sum(self.drop(each) for each in ids)
        self.value += back
        self.tell(back)
        return back

    def set(self, units: int, replaces: int) -> int:
        if self.value is None:
            self.make(units)
        elif not replaces:
            return int(self.other(units) or 0)
        else:
            change = units - self.value - len(self.held)
            if self.reclaim(100):
                self.tell(self.value)
            if not change:
                return 0
            self.value += change
            self.change(change)
        self.tell(units)
        return 1

    def add(self, units: int) -> int:
        if self.value is None:
            self.make(0)
        assert self.value is not None
        self.value += units
        self.change(units)
        self.tell(units)
        return self.value

    def update_lease(self, mark: bytes) -> int:
        if self.value is None:
            return 0
        alive = mark in self.held and mark not in self.ended
        back, sooner = self.reclaim(100), int(alive and self.ends_sooner(mark))
        if back:
            self.tell(self.value)
        self.tell(sooner)
        return int(alive)


def said(reply: int | None) -> str:
    """Return what the reply to an acquire means."""
    if reply is not None and reply <= -10:
        return str(reply)
    return {None: "granted", -3: "void"}.get(reply, "busy")
