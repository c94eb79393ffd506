"""Decorator: a lock around every call of a function, named after the call's arguments."""

from __future__ import annotations

import asyncio

from examples.tour.me import Me
from examples.tour.stage import Stage, most_at_once, stays


async def reports(me: Me, *, day: str) -> None:
    """Make the report of a day."""

    @me.client.get_lock("report:{day}")
    async def make_report(day: str) -> str:
        me.tell("begins")
        await me.hears("finish")
        me.tell("ends")
        return f"report of {day}"

    await me.hears("start")
    me.tell("made", report=await make_report(day))


async def scene(stage: Stage) -> None:
    """Two processes make the same report, a third one makes another."""
    mondays = await stage.start(reports, "monday-1", "monday-2", day="monday")
    [tuesday] = await stage.start(reports, "tuesday", day="tuesday")
    for each in (*mondays, tuesday):
        each.tell("start")
    stage.say("two processes write Monday's report, a third one Tuesday's")
    first = await stage.somebody(mondays, "begins")
    await tuesday.says("begins")
    await asyncio.sleep(0.2)
    state = "over" if first.all("ends") else "still being made"
    stage.check("Tuesday's does not wait for Monday's", state != "over", f"that is {state}")
    for each in (*mondays, tuesday):
        each.tell("finish")
    made = [(await each.says("made"))["report"] for each in (*mondays, tuesday)]
    most = most_at_once(stays(mondays, "begins", "ends"))
    stage.check("Monday's two were written one after the other", most == 1, f"{most} at once")
    expected = ["report of monday", "report of monday", "report of tuesday"]
    stage.check("callers get what the function returns", made == expected, made[-1])
