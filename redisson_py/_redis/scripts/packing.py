"""Packs the arguments of a script's calls as RESP, by one formatting operation.

hiredis packs any command, argument by argument; that took a seventh of the time of an uncontended
acquire and release. The header of a script states its arguments, so the format of its calls can be
made once. Calls of any other shape, a batch or a plain command, are left to hiredis.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

Pack = Callable[..., bytes]

#: Placeholders for a key and a field while a form is made; no script has them in its text.
_KEY, _FIELD = b"\x01", b"\x02"


def packer(script: str, keys: tuple[str, ...], args: tuple[str, ...], ints: frozenset[str]) -> Pack:
    """Return a function that packs `numkeys key... arg...`: bytes, and numbers as `ints` says.

    It takes all of them by keyword. It is compiled from the names in the header, as `dataclass`
    compiles its `__init__`; the parser of the header accepts only identifiers.
    """
    names = keys + args
    form = _number(len(keys)) + b"".join(b"%b" if n in ints else b"$%d\r\n%b\r\n" for n in names)
    # The header's names do not begin with an underscore, so they hide none of these.
    values = "".join(f"_number({n}), " if n in ints else f"_len({n}), {n}, " for n in names)
    text = f"lambda {'*, ' if names else ''}{', '.join(names)}: _form % ({values})"
    pack: Pack = eval(text, {"_form": form, "_number": _number, "_len": len})
    pack.__qualname__ = script
    return pack


class CallForm(dict[int, Callable[[bytes, bytes], bytes]]):
    """A call that varies only in a key and a field: functions that pack it, by length of field.

    The keys and channels of a name are made from its key, so all calls of one kind on keys of one
    length are one pattern with gaps. A form is the pattern for one length of key;
    `form[len(field)](key, field)` is a call.

    Args:
        render: Packs the call for a key and a field the slow way.
        key_length: The length of the keys.
        tagged: The keys have an opening brace, so keys derived from them get no braces.
    """

    def __init__(
        self, render: Callable[[bytes, bytes], bytes], key_length: int, tagged: bool
    ) -> None:
        super().__init__()
        self._render = render
        self._key = b"{" + _KEY * (key_length - 1) if tagged else _KEY * key_length

    def __missing__(self, length: int) -> Callable[[bytes, bytes], bytes]:
        key, field = self._key, _FIELD * length
        text = self._render(key, field).replace(b"%", b"%%")
        pieces = re.split(b"(" + re.escape(key) + b"|" + re.escape(field) + b")", text)
        gaps = {key: "key, ", field: "field, "}
        form = b"".join(b"%b" if piece in gaps else piece for piece in pieces)
        values = "".join(gaps.get(piece, "") for piece in pieces)
        pack = eval(f"lambda key, field: form % ({values})", {"form": form})
        return self.setdefault(length, pack)


def head(sha: str, count: int) -> bytes:
    """Return what precedes the `count` arguments of a call of the script with this sha."""
    return b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % (2 + count, sha.encode())


@lru_cache(maxsize=256)
def _number(value: int) -> bytes:
    digits = b"%d" % value
    return b"$%d\r\n%b\r\n" % (len(digits), digits)


def unpacked(call: bytes) -> list[bytes]:
    """Return the words of a packed call."""
    words: list[bytes] = []
    start = call.index(b"\r\n") + 2
    while start < len(call):
        begins = call.index(b"\r\n", start) + 2
        end = begins + int(call[start + 1 : begins])
        words.append(call[begins:end])
        start = end + 2
    return words
