"""One command to one server: a connection of its own, RESP2, the reply decoded.

Enough to set servers up and to look at them; nothing here is fast.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

Tls = tuple[Path, Path, Path]
_LONGEST_REPLY: Final = 64 * 1024 * 1024


@final
class CommandError(RuntimeError):
    """Raised when a server answers a command with an error."""


@functools.cache
def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the settings of a connection that presents this certificate."""
    certificate, key, authority = tls
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    context.load_cert_chain(certificate, key)
    return context


def packed(words: Sequence[str | bytes | int]) -> bytes:
    """Return a command as it goes over the wire."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)


async def ask(
    host: str,
    port: int,
    *commands: Sequence[str | bytes | int],
    login: Sequence[str] = (),
    tls: Tls | None = None,
    source: str | None = None,
    timeout: float = 5.0,
) -> Any:
    """Send commands to a server and return the reply of the last.

    Args:
        host: Where it listens.
        port: Its port.
        commands: What to send; each is awaited before the next.
        login: What to authenticate with: a password, or a user and a password.
        tls: Certificate, key and authority; None for a plain connection.
        source: The address to connect from; None for any.
        timeout: Seconds for everything together.

    Returns:
        Text (`str`), a number, None, or a list of these.

    Raises:
        CommandError: A reply was an error.
        OSError: The server could not be reached, or closed the connection.
        TimeoutError: It did not answer in time.
    """
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(
            host,
            port,
            ssl=tls_context(tls) if tls else None,
            server_hostname=host if tls else None,
            limit=_LONGEST_REPLY,
            local_addr=None if source is None else (source, 0),
        )
        try:
            reply = None
            for words in ([["AUTH", *login]] if login else []) + [list(each) for each in commands]:
                writer.write(packed(words))
                reply = await _read_reply(reader)
                if isinstance(reply, CommandError):
                    raise reply
            return reply
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def _read_reply(reader: asyncio.StreamReader) -> Any:
    try:
        reply = (await reader.readuntil(b"\r\n"))[:-2]
        kind, body = reply[:1], reply[1:].decode(errors="surrogateescape")
        if kind == b"$":
            if body == "-1":
                return None
            blob = await reader.readexactly(int(body) + 2)
            return blob[:-2].decode(errors="surrogateescape")
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("the server closed the connection") from error
    if kind == b"-":
        return CommandError(body)
    if kind == b":":
        return int(body)
    if kind == b"*":
        return None if body == "-1" else [await _read_reply(reader) for _ in range(int(body))]
    return body
