"""A hold on its way to another process, and the text that stands for it.

The text is what `Lease.hand_over` returns and `adopt` takes. It says whose hold on which name it
is, as the server knows it, and has a checksum: a text that was cut or mixed up is refused before
anything is sent. Who has it can take the hold, so no error and no log record quotes it.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass
from typing import Any

from redisson_py._keys import Name

#: Every text begins with this; another layout of its values gets another number.
PREFIX = "redisson-py.1."

#: Random bytes that an adopter must know: owners stand in logs, so they prove nothing.
SECRET_BYTES = 16

_ANY_PREFIX = "redisson-py."


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A hold that its owner renews no more, and that another process may adopt.

    Attributes:
        kind: The kind of lock, in words.
        name: Its name, as the giver calls it.
        key: The key that the giver's client has for that name.
        database: The number of its database.
        owner: The owner under which the server keeps it.
        secret: What an adopter must know.
        token: Its fencing token, if it has one; the adopter has the same.
        last_token: The last one that the adopter's tasks may have in turn.
        until_ms: The millisecond of the epoch, by the server's clock, at which its lease ends.
    """

    kind: str
    name: Name
    key: bytes
    database: str
    owner: str
    secret: str
    token: int | None
    last_token: int
    until_ms: int

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}, handed over>"

    def text(self) -> str:
        """Return the text that stands for it: letters, digits, dots, dashes and underscores."""
        values = [
            self.kind,
            isinstance(self.name, bytes),
            _text(self.name),
            _text(self.key),
            self.database,
            self.owner,
            self.secret,
            self.token,
            self.last_token,
            self.until_ms,
        ]
        written = json.dumps(values, separators=(",", ":")).encode()
        checked = zlib.crc32(written).to_bytes(4, "big") + written
        return PREFIX + base64.urlsafe_b64encode(checked).decode().rstrip("=")

    @classmethod
    def read(cls, text: object) -> HandedOver:
        """Return what a text stands for.

        Raises:
            TypeError: It is not a str.
            ValueError: It is not the whole text that `hand_over` has returned.
        """
        if not isinstance(text, str):
            raise TypeError(f"the token must be the str that hand_over returned, not {_kind(text)}")
        text = text.strip()
        if not text.startswith(PREFIX):
            if text.startswith(_ANY_PREFIX):
                raise ValueError("this token is of another release of redisson_py")
            raise ValueError(
                "this is no token of hand_over: such a token begins with 'redisson-py.'"
            )
        try:
            encoded = text.removeprefix(PREFIX).encode("ascii")
            checked = base64.b64decode(encoded + b"=" * (-len(encoded) % 4), b"-_", validate=True)
            written = checked[4:]
            if zlib.crc32(written).to_bytes(4, "big") != checked[:4]:
                raise ValueError("checksum")
            return _of(json.loads(written))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            # No cause: it would quote the token.
            raise ValueError("this token of hand_over is damaged: it was cut, or changed") from None


def _of(values: Any) -> HandedOver:
    """Return what values stand for; `ValueError` or `TypeError` if they are not ours."""
    kind, is_bytes, name, key, database, owner, secret, token, last_token, until_ms = values
    texts, numbers = (kind, name, key, database, owner, secret), (last_token, until_ms)
    if not all(type(each) is str for each in texts) or not all(
        type(each) is int for each in numbers
    ):
        raise TypeError("another layout")
    if type(is_bytes) is not bool or type(token) not in (int, type(None)) or until_ms < 1:
        raise TypeError("another layout")
    if not (owner + secret + database).isascii():
        raise ValueError("not ours")
    own = _bytes(name) if is_bytes else name
    return HandedOver(kind, own, _bytes(key), database, owner, secret, token, last_token, until_ms)


def _text(name: Name) -> str:
    return name.decode(errors="surrogateescape") if isinstance(name, bytes) else name


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _kind(value: object) -> str:
    return type(value).__name__
