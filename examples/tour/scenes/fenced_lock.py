"""FencedLock: the database refuses a write that comes too late."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from examples.tour.actor import Report
from examples.tour.me import Me
from examples.tour.stage import LEASE_TIME, Stage
from redisson_py import LeaseLostError


def save(database: Path, text: str, token: int) -> bool:
    """Write the report; return False if a greater token has written before."""
    with closing(sqlite3.connect(database)) as connection, connection:
        done = connection.execute(
            "UPDATE report SET text = :text, token = :token WHERE token <= :token",
            {"text": text, "token": token},
        )
        return done.rowcount == 1


async def writer(me: Me) -> None:
    """Write a report under the lock; who is late is suspended just before it writes."""
    await me.hears("start")
    me.tell("asks")
    try:
        async with me.client.get_fenced_lock("report") as lease:
            assert lease.token is not None
            lease.check()
            me.tell("inside", token=lease.token)
            if me.name == "late":
                os.kill(os.getpid(), signal.SIGSTOP)
            accepted = save(me.directory / "report.db", f"by {me.name}", lease.token)
            me.tell("wrote", accepted=accepted)
    except LeaseLostError:
        me.tell("lost")


async def scene(stage: Stage) -> None:
    """A holder is suspended between its last look at the lease and its write."""
    database = stage.directory / "report.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE report (text, token INTEGER)")
        connection.execute("INSERT INTO report VALUES ('empty', 0)")

    late, quick = await stage.start(writer, "late", "quick", struck="late")
    late.tell("start")
    asked = await late.says("asks")
    first = await late.says("inside")
    stage.say(f"{late} looks at its lease, is suspended (SIGSTOP), and will write when it wakes")
    quick.tell("start")
    second = await quick.says("inside")
    after = second.at - asked.at
    stage.check_lease(
        f"{quick.name} got in when the lease of {LEASE_TIME} s was over, not before",
        after,
        "the holder asked",
        whole=True,
    )
    stage.check(
        "the later holder has the greater token",
        second["token"] > first["token"],
        f"{first['token']}, then {second['token']}",
    )
    written = await quick.says("wrote")
    stage.check(f"{quick.name} writes", written["accepted"], _answer(written))
    late.wake()
    stage.say(f"{late.name} wakes up (SIGCONT) and writes, not knowing how late it is")
    written = await late.says("wrote")
    stage.check(f"{late.name} changed nothing", not written["accepted"], _answer(written))
    await late.says("lost")
    with closing(sqlite3.connect(database)) as connection:
        (text,) = connection.execute("SELECT text FROM report").fetchone()
    stage.check("the report is that of the later holder", text == f"by {quick.name}", text)


def _answer(written: Report) -> str:
    return f"the database {'took' if written['accepted'] else 'refused'} its write"
