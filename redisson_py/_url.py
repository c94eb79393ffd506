"""What the URL of any server has: parts, a host, a port.

No error quotes a URL: if something in it is not escaped, any part of it may belong to the password.
Errors therefore have fixed texts, and are raised outside of `except`, so that no error that quotes
the URL is attached to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

T = TypeVar("T")

ESCAPE = (
    "percent-encode a /, # or ? in a user name or password, with"
    ' urllib.parse.quote(password, safe="")'
)
_HOST = re.compile(r"[\w.-]+|[0-9a-fA-F:.]+(%[\w.-]+)?")


def attempt(read: Callable[[], T]) -> T | None:
    """Return what `read` returns; None if it fails, so that its error is no context of ours."""
    try:
        return read()
    except (ValueError, TypeError):
        return None


def split(text: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        ValueError: It is malformed. The error does not quote it.
    """
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        # urlsplit() silently drops some of them, even from passwords.
        raise ValueError("the URL contains a tab, a line break or another control character")
    if attempt(text.encode) is None:
        raise ValueError("the URL contains characters that UTF-8 cannot encode")
    parts = attempt(lambda: urlsplit(text))
    if parts is None:
        raise ValueError(
            "cannot parse the URL: percent-encode brackets and non-ASCII letters in a user name or"
            " password"
        )
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError(f"the URL has an @ after its host (write %40): {ESCAPE}")
    if "#" in text:
        raise ValueError(f"the URL contains a #: {ESCAPE}")
    return parts


def address_in(parts: SplitResult) -> dict[str, Any]:
    """Return host and port, each if it is there.

    Raises:
        ValueError: They are malformed. The error does not quote them.
    """
    settings: dict[str, Any] = {}
    port = attempt(lambda: parts.port)
    # The text after the colon; it may be empty.
    given = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]
    if given and not port:
        raise ValueError(f"the port in the URL must be a number from 1 to 65535; {ESCAPE}")
    if port:
        settings["port"] = port
    if parts.hostname:
        host = unquote(parts.hostname)
        if not _HOST.fullmatch(host) or attempt(lambda: host.encode("idna")) is None:
            raise ValueError(f"the URL has an invalid host; {ESCAPE}")
        settings["host"] = host
    return settings
