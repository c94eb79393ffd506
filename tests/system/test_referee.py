"""Holders in several processes under SIGKILL, SIGSTOP and loss of data; the referee decides.

Every run is the same run: the same writers, blows and verdict. With the real tokens and a
resource that checks them the verdict is that nothing went wrong; take away either and it is
that something did.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from redisson_py.testing import EmbeddedServer
from tests.fixtures.measured import Measured
from tests.system.nemesis import Nemesis, Struck, Tokens, crew, writer
from tests.system.referee import Ask, Begin, Event, Referee, Rule, Write, violations

SEED = 4


@dataclass(frozen=True, slots=True)
class Run:
    """What is left of a run: the referee's log, and what the nemesis did."""

    log: Sequence[Event]
    struck: Sequence[Struck]

    @property
    def writes(self) -> list[Write]:
        return [event for event in self.log if isinstance(event, Write)]

    @property
    def rules_broken(self) -> set[Rule]:
        return {violation.rule for violation in violations(self.log)}

    def writes_of(self, section: str) -> list[bool]:
        """Return for each write of a section whether it was accepted."""
        return [write.accepted for write in self.writes if write.section == section]

    def note(self, measured: Measured) -> None:
        accepted = [write for write in self.writes if write.accepted]
        writers = [writer(write.section) for write in accepted]
        measured("writes accepted", len(accepted))
        measured("writes refused", len(self.writes) - len(accepted))
        measured("changes of writer", sum(a != b for a, b in itertools.pairwise(writers)))
        measured("blows", dict(Counter(struck.blow for struck in self.struck)))
        measured("violations", dict(Counter(v.rule for v in violations(self.log))))


async def run(
    server: EmbeddedServer, *, tokens: Tokens, checks: bool = True, rounds: int = 1
) -> Run:
    async with Referee(checks=checks) as referee:
        async with crew(server.url, referee, tokens) as writers:
            nemesis = Nemesis(server, referee, writers, SEED)
            await nemesis.run(rounds)
    return Run(referee.log, nemesis.struck)


async def test_no_write_with_a_smaller_token_is_ever_accepted(
    own_server: EmbeddedServer, measured: Measured
) -> None:
    result = await run(own_server, tokens="fenced", rounds=3)
    result.note(measured)
    assert violations(result.log) == [], result.struck
    assert sum(write.accepted for write in result.writes) >= 300
    for struck in result.struck:
        writes = result.writes_of(struck.section)
        if struck.blow in ("kill", "stop careful"):
            # The dead do not write, and who looks at its lease is told that it is lost.
            assert writes == [], struck
        else:
            # It wrote all the same, with a newer section long begun: it was the check.
            assert writes == [False], struck


async def test_verdict_is_bad_when_the_resource_does_not_check(
    own_server: EmbeddedServer, measured: Measured
) -> None:
    result = await run(own_server, tokens="fenced", checks=False)
    result.note(measured)
    # The tokens are in order here, too: it is the check that is missing.
    assert result.rules_broken == {"smaller token accepted", "overtaken", "lost update"}


async def test_verdict_is_bad_when_tokens_are_a_plain_counter(
    own_server: EmbeddedServer, measured: Measured
) -> None:
    result = await run(own_server, tokens="counter")
    result.note(measured)
    # The check does what it can, but where the counter started again it refuses new holders
    # and believes old ones.
    assert "tokens not in order" in result.rules_broken
    assert "smaller token accepted" not in result.rules_broken


def log(*lines: str) -> list[Event]:
    """Write a log as `a asks`, `a begins O 7`, `a writes 7 1`, `a writes 7 1 refused`."""
    events: list[Event] = []
    for line in lines:
        match line.split():
            case [section, "asks"]:
                events.append(Ask(section))
            case [section, "begins", owner, token]:
                events.append(Begin(section, owner, int(token)))
            case [section, "writes", token, value, *refused]:
                events.append(Write(section, int(token), int(value), not refused))
    return events


#: Two sections of which the second is certainly newer, and two whose order nobody knows.
OLD, NEW = ("a asks", "a begins A 7"), ("b asks", "b begins B 8")
BOTH_ASK = ("a asks", "b asks")


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (*OLD, "a writes 7 1", *NEW, "b writes 8 2"),
        (*OLD, *NEW, "b writes 8 1", "a writes 7 1 refused"),
        (*OLD, *NEW, "a writes 7 1 refused", "b writes 8 1"),
        # Either may have been granted first, whoever says so first.
        (*BOTH_ASK, "b begins B 8", "a begins A 7", "b writes 8 1", "a writes 7 1 refused"),
        # One grant, passed on to another task; and one that is no longer good.
        (*OLD, "a writes 7 1", "c asks", "c begins A 8", "c writes 8 2"),
        (*OLD, "b asks", "b begins B 99", "c asks", "c begins A 8", "c writes 8 1 refused"),
    ],
)
def test_verdict_is_good(lines: tuple[str, ...]) -> None:
    assert violations(log(*lines)) == []


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        (
            "smaller token accepted",
            (*BOTH_ASK, "b begins B 8", "b writes 8 1", "a begins A 7", "a writes 7 2"),
        ),
        ("tokens not in order", (*OLD, "a writes 7 1", "b asks", "b begins B 1")),
        ("tokens not in order", (*BOTH_ASK, "a begins A 7", "b begins B 7")),
        ("tokens not in order", (*OLD, "c asks", "c begins A 6")),
        ("overtaken", (*OLD, *NEW, "a writes 7 1")),
        (
            "lost update",
            (*BOTH_ASK, "a begins A 7", "b begins B 8", "a writes 7 1", "b writes 8 1"),
        ),
    ],
)
def test_verdict_names_the_broken_rule(rule: Rule, lines: tuple[str, ...]) -> None:
    events = log(*lines)
    [violation] = violations(events)
    assert (violation.rule, violation.event) == (rule, events[-1])


def test_reading_with_a_greater_token_shuts_the_old_holder_out() -> None:
    referee = Referee()
    steps = ("ask a", "begin a A 7", "ask b", "begin b B 8", "write a 7 1", "write b 8 1")
    answers = [referee.answer(step) for step in steps]
    assert answers == ["ok", "0", "ok", "0", "refused", "accepted"]
    assert violations(referee.log) == []
