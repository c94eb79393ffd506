"""The dialects of scripts: what servers understand, and how a text is translated.

The files of `lua/` are written in the dialect `MODERN`. The others are made from that text, so a
script has one version and, where its text differs, one sha for each dialect.
"""

from __future__ import annotations

from enum import IntEnum


class Dialect(IntEnum):
    """What is sent to a server; `Script.wordings` has one entry for each, in this order.

    Attributes:
        PLAIN: Redis 6.2, which cannot read a `#!lua` line.
        MODERN: Redis 7 and newer.
        SHARDED: The same in a cluster with sharded pub/sub: messages go to the channel's node only.
    """

    PLAIN = 0
    MODERN = 1
    SHARDED = 2


def wordings(text: str) -> tuple[str, ...]:
    """Return the text of a file of `lua/` in each dialect."""
    first, _, following = text.partition("\n")
    plain = following if first.startswith("#!") else text
    # Commands in scripts are literals (tests/unit/test_lua_files.py); comments stay as they are.
    return plain, text, text.replace("'PUBLISH'", "'SPUBLISH'")
