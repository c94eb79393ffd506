"""The crowd's referee can fail: each rule, and a worker that does not lock."""

from __future__ import annotations

import asyncio

import pytest

from tests.interop.crowd import Order, PythonCrew, work
from tests.interop.crowd_referee import Referee, Worker


@pytest.mark.parametrize(
    ("steps", "faults"),
    [
        (["a enter alone", "a leave 1", "b enter alone", "b leave 2"], 0),
        (["a enter alone", "b enter alone"], 1),
        (["a enter alone", "b enter alone", "a leave 1", "b leave 1"], 2),
        (["a enter alone", "b enter shared"], 1),
        (["a enter shared", "b enter alone"], 1),
        (["a enter shared", "b enter shared", "a leave 0", "b leave 0", "a enter alone"], 0),
        (["a enter permit", "b enter permit"], 0),
        (["a enter permit", "b enter permit", "c enter permit"], 1),
        (["a enter permit", "b enter permit", "a leave 0", "c enter permit"], 0),
        (["a enter alone 5", "a leave 1", "b enter alone 7"], 0),
        (["a enter alone 7", "a leave 1", "b enter alone 7"], 1),
        (["a enter alone 7", "a leave 1", "b enter alone 5"], 1),
        (["a enter alone", "a dies", "b enter alone", "b leave 1"], 0),
        (["a arrive 0", "b arrive 0", "c arrive 0", "b pass 0", "a pass 0"], 0),
        (["a arrive 0", "b arrive 0", "b pass 0"], 1),
    ],
)
def test_every_rule_of_the_referee_can_be_broken(steps: list[str], faults: int) -> None:
    referee = Referee(workers=3, permits=2)
    workers = {name: Worker(referee) for name in "abc"}
    for step in steps:
        name, _, words = step.partition(" ")
        if words == "dies":
            referee.gone(workers[name])
        else:
            referee.answer(workers[name], words)
    assert len(referee.faults) == faults, referee.faults


@pytest.mark.parametrize(
    ("steps", "overtaken"),
    [
        ("+a +b a b", 0),
        ("a +b b c", 0),
        ("+a +b b a", 1),
        ("+a +b c a b", 1),
        ("+a +b +a b a", 2),
    ],
)
def test_overtaking_in_a_queue_is_counted(steps: str, overtaken: int) -> None:
    log = ""
    for step in steps.split():
        owner = step.removeprefix("+")
        did = '"rpush" "redisson_lock_queue:{k}"' if "+" in step else '"HINCRBY" "k"'
        log += f'+1.5 [0 lua] {did} "{owner}" "1"\r\n+1.6 [0 lua] "HINCRBY" "k" "{owner}" "-1"\r\n'
    assert len(Order(log.encode(), "k").overtaken) == overtaken


async def test_a_worker_that_does_not_lock_is_seen(server_url: str) -> None:
    crews = [PythonCrew(), PythonCrew()]
    try:
        async with Referee(workers=3, pauses=[0.002]) as referee:
            orders = [{"kind": "lock", "workers": 2}, {"kind": "nothing", "workers": 1}]
            async with asyncio.timeout(30), asyncio.TaskGroup() as group:
                for crew, order in zip(crews, orders, strict=True):
                    group.create_task(work([crew], referee, name="k", url=server_url, **order))
    finally:
        for crew in crews:
            crew.close()
    assert any("alone, came in to ['alone']" in fault for fault in referee.faults)
