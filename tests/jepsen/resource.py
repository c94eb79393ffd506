"""The protected resource: a process of its own that checks tokens, or not, and is the referee.

Run as `python -m tests.jepsen.resource FOLDER`; it prints its port. For each object there is a
number. A worker that holds the lock reads it (`begin`) and writes it back with one added (`write`);
an object whose name begins with `fenced` refuses a smaller token than it has seen. The steps:

    ask OBJ SECTION                             the worker is about to ask for the lock
    begin OBJ SECTION OWNER TOKEN               it has the lock, and reads: `NUMBER CONTENT`
    write OBJ SECTION TOKEN VALUE [CONTENT]     it writes; content is words with commas
    look OBJ SECTION                            it reads without a token, as readers do

What it sees, in its order, is its history; `tests.system.referee.violations` judges it. At the end
it records each content as a `read`.

It is also the board on which workers agree about what none can decide alone: nobody kills it.

    post TOPIC WORD...      leave words
    take TOPIC              get the oldest word that nobody has taken, or nothing
    join TOPIC MEMBER       get the number of the round of a topic

A member that joins a second time begins a new round: it broke the last one, or it was killed and
has begun a new life.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.jepsen.history import Recorder, say
from tests.system.referee import Referee, Write


@dataclass
class _Round:
    number: int = 0
    members: set[str] = field(default_factory=set)


class Board:
    """What was left on it."""

    def __init__(self) -> None:
        self._left: defaultdict[str, deque[str]] = defaultdict(deque)
        self._rounds: defaultdict[str, _Round] = defaultdict(_Round)

    def answer(self, word: str, topic: str, arguments: list[str]) -> str:
        """Do what a worker asks for; return what to tell it."""
        match word, arguments:
            case "post", words:
                self._left[topic].extend(words)
                return "ok"
            case "take", []:
                left = self._left[topic]
                return left.popleft() if left else ""
            case "join", [member]:
                return str(self._join(self._rounds[topic], member))
        raise ValueError(f"not a step: {word} {topic} {arguments}")

    def _join(self, present: _Round, member: str) -> int:
        if member in present.members:
            present.number += 1
            present.members.clear()
        present.members.add(member)
        return present.number


class Resource:
    """Numbers by object, and the record of what was done to them."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._numbers: dict[str, Referee] = {}
        self._contents: dict[str, str] = {}
        self._board = Board()

    def answer(self, row: str) -> str:
        """Take a step; return what to tell the worker."""
        word, obj, *arguments = row.split(" ")
        if word not in ("ask", "begin", "write", "look"):
            return self._board.answer(word, obj, arguments)
        number = self._numbers.get(obj)
        if number is None:
            number = self._numbers[obj] = Referee(checks=obj.startswith("fenced"))
        match word:
            case "ask" | "begin":
                return self._step(number, word, obj, *arguments)
            case "write":
                section, token, value, *content = arguments
                said = self._step(number, word, obj, section, token, value)
                if content and said == "accepted":
                    self._contents[obj] = content[0]
                return said
            case _:
                self._record.note("look", obj, rid=arguments[0], value=number.value)
                return str(number.value)

    def finish(self) -> None:
        """Record what is there in the end."""
        for obj, content in self._contents.items():
            self._record.note("read", obj, value=content.split(","))

    def _step(self, number: Referee, word: str, obj: str, *words: str) -> str:
        reply = number.answer(" ".join((word, *words)))
        event = number.log.pop()
        accepted = event.accepted if isinstance(event, Write) else True
        facts: dict[str, Any] = {
            "rid": event.section,
            "owner": getattr(event, "owner", ""),
            "fence": getattr(event, "token", None),
            "value": event.value if isinstance(event, Write) else None,
        }
        self._record.note(word, obj, out="ok" if accepted else "fail", **facts)
        if word == "begin" and obj in self._contents:
            return f"{reply} {self._contents[obj]}"
        return reply

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one worker, line by line."""
        with suppress(ConnectionError):  # the worker was killed
            while row := await reader.readline():
                writer.write(self.answer(row.decode().strip()).encode() + b"\n")
        writer.close()


async def main(folder: Path) -> None:
    """Serve until standard input ends."""
    resource = Resource(Recorder(folder, "resource"))
    server = await asyncio.start_server(resource.serve, "127.0.0.1", 0)
    say(str(server.sockets[0].getsockname()[1]))
    await asyncio.to_thread(sys.stdin.read)
    server.close()
    resource.finish()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
