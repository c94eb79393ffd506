"""Commands as bytes, and back."""

from __future__ import annotations

import hiredis


class CommandReader:
    """Finds the commands in what comes in."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()

    def feed(self, data: bytes) -> list[tuple[bytes, ...]]:
        """Return the commands that are complete with these bytes."""
        self._reader.feed(data)
        commands = []
        while (command := self._reader.gets()) is not False:
            if not isinstance(command, list):
                raise hiredis.ProtocolError("no command")
            commands.append(tuple(command))
        return commands


def commands_in(data: bytes) -> list[tuple[bytes, ...]]:
    """Return the commands that some bytes are."""
    return CommandReader().feed(data)


def packed(command: tuple[bytes, ...]) -> bytes:
    """Return a command as bytes."""
    head = b"*%d\r\n" % len(command)
    return head + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)
