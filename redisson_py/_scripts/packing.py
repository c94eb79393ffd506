"""The arguments of a script's calls as RESP, put together by one formatting operation.

hiredis packs any command, argument by argument; that was a seventh of an uncontended acquire
and release. What a script takes is known from its header, so the format of its calls can be
made once. Calls of any other shape, a batch or a plain command, are left to hiredis.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

Pack = Callable[..., bytes]


def packer(
    script: str,
    keys: tuple[str, ...],
    args: tuple[str, ...],
    ints: frozenset[str],
    *,
    packed: bool = False,
) -> Pack:
    """Return what packs `numkeys key... arg...`: bytes, or numbers where `ints` says so.

    It takes all of them by keyword; `packed`: the bytes as `bulk` returns them. Made from the
    header's text, as `dataclass` makes its `__init__`; only identifiers get here, the header's
    parser refuses everything else.
    """
    names = keys + args
    bulk_form = b"%b" if packed else b"$%d\r\n%b\r\n"
    form = _number(len(keys)) + b"".join(b"%b" if n in ints else bulk_form for n in names)
    # The header's names do not begin with an underscore, so they hide none of these.
    bulk_value = "{0}, " if packed else "_len({0}), {0}, "
    values = "".join(f"_number({n}), " if n in ints else bulk_value.format(n) for n in names)
    text = f"lambda {'*, ' if names else ''}{', '.join(names)}: _form % ({values})"
    pack: Pack = eval(text, {"_form": form, "_number": _number, "_len": len})
    pack.__qualname__ = script
    return pack


def bulk(value: bytes) -> bytes:
    """Return bytes as RESP has them: what is sent again and again is packed once."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def head(sha: str, count: int) -> bytes:
    """Return what comes before so many arguments of a call of the script with this name."""
    return b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % (2 + count, sha.encode())


@lru_cache(maxsize=256)
def _number(value: int) -> bytes:
    digits = b"%d" % value
    return b"$%d\r\n%b\r\n" % (len(digits), digits)
