"""RedLock: can be acquired while two of three servers are up."""

from __future__ import annotations

from contextlib import AsyncExitStack

from examples.tour.actor import Report
from examples.tour.me import Me
from examples.tour.stage import Stage
from redisson_py import QuorumError, Redisson
from redisson_py.testing import running_server

#: Seconds for which each service asks, in each of its turns: longer where it is to be granted.
SECONDS = {
    "service-1": {"first": 30.0, "second": 1.0},
    "service-2": {"first": 1.0, "second": 30.0},
}


async def service(me: Me, *, urls: dict[str, str]) -> None:
    """Hold a lock on several servers, each time we are told to."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                Redisson.from_url(url, client_name=name, prefix=me.prefix)
            )
            for name, url in urls.items()
        ]
        lock = clients[0].get_red_lock(*[client.get_lock("leader") for client in clients])
        for order in ("first", "second"):
            await me.hears(f"{order} turn")
            try:
                async with lock.hold(timeout=SECONDS[me.name][order]):
                    me.tell("granted")
                    await me.hears(f"end {order} turn")
                me.tell("left")
            except QuorumError as error:
                me.tell("refused", answers=error.answers)


async def scene(stage: Stage) -> None:
    """Lose one of three servers, then another one."""
    async with running_server() as first, running_server() as second, running_server() as third:
        urls = {"server-1": first.url, "server-2": second.url, "server-3": third.url}
        one, two = await stage.start(service, "service-1", "service-2", urls=urls)
        one.tell("first turn")
        await one.says("granted")
        stage.say(f"{one} holds the lock on most of three servers; {two} asks for it, too")
        two.tell("first turn")
        granted = _granted(stage, await two.says("refused"), urls)
        # One of the three may have answered the holder too late to count.
        stage.check("it is refused", len(granted) < 2, f"{len(granted)} of 3 servers granted it")
        one.tell("end first turn")
        await one.says("left")

        await third.kill()
        stage.say(f"kill -9 server-3; {two.name} asks again")
        two.tell("second turn")
        await two.says("granted")
        stage.check("two of three are enough", len(two.all("refused")) == 1, "granted")
        two.tell("end second turn")
        await two.leaves()

        await second.pause()
        stage.say(f"server-2 is frozen (SIGSTOP), answers nothing; {one.name} asks")
        one.tell("second turn")
        granted = _granted(stage, await one.says("refused"), urls)
        # It may have answered too late to count.
        stage.check(
            "one of three is not", len(granted) < 2, f"{len(granted)} of 3 servers granted it"
        )
        await one.leaves()


def _granted(stage: Stage, refused: Report, urls: dict[str, str]) -> list[str]:
    """Show what each server said, by our names for them; return those that said yes."""
    names = {url.removeprefix("redis://"): name for name, url in urls.items()}
    answers = {
        names.get(server.partition("/")[0], server): answer
        for server, answer in refused["answers"].items()
    }
    for server, answer in sorted(answers.items()):
        stage.add(f"{server}: {answer}")
    return [server for server, answer in answers.items() if answer.startswith("granted")]
