"""What the URL of a server says, checked.

No text of a URL is ever told: where something in it is not escaped, any part of it may belong to
the password. Errors therefore have fixed texts, name at most an argument that exists, and are
raised outside of `except`, so that no error that quotes the URL hangs on them.
"""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redisson_py._time import LONGEST_LEASE

__all__ = ["Target", "read_url"]

T = TypeVar("T")
Kind = Literal["tcp", "tls", "unix"]

_KINDS: dict[str, Kind] = {
    "redis": "tcp",
    "valkey": "tcp",
    "rediss": "tls",
    "valkeys": "tls",
    "unix": "unix",
}
_SCHEMES = "redis://, rediss://, valkey://, valkeys:// or unix://"
_LATER = {
    f"{scheme}{letter}+{word}": f"{scheme.capitalize()} {word.capitalize()}"
    for scheme in ("redis", "valkey")
    for letter in ("", "s")
    for word in ("cluster", "sentinel")
}
_ESCAPE = (
    "a /, # or ? in a user name or password must be percent-encoded, as by"
    ' urllib.parse.quote(password, safe="")'
)
_ON_PURPOSE = (
    "; to do that on purpose, make a redis.asyncio.Redis with the setting and pass it to Redisson"
)
_HOST = re.compile(r"[\w.-]+|[0-9a-fA-F:.]+(%[\w.-]+)?")


@dataclass(frozen=True)
class Target:
    """What a URL names.

    Attributes:
        kind: How to connect.
        settings: What redis-py needs for it.
        connect_timeout: Seconds that one attempt to connect may take, if the URL says so.
        command_timeout: Likewise for a call that gets no answer.
    """

    kind: Kind
    settings: dict[str, Any]
    connect_timeout: float | None
    command_timeout: float | None

    def __repr__(self) -> str:
        return f"<Target {self.kind}>"


def read_url(url: object) -> Target:
    """Return what `url` says.

    Raises:
        TypeError: It is not a str.
        ValueError: It is malformed, of a scheme not supported, or switches TLS checks off.
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")
    text = url.strip()
    kind = _kind(text)
    parts = _split(text)
    arguments = _arguments(parts.query, kind)
    settings = {name: value for name, value in arguments.items() if name not in _TIMEOUTS}
    if parts.username:
        settings["username"] = unquote(parts.username)
    if parts.password:
        settings["password"] = unquote(parts.password)
    settings |= _path(parts) if kind == "unix" else _address(parts, settings.get("db"))
    return Target(
        kind, settings, arguments.get("socket_connect_timeout"), arguments.get("socket_timeout")
    )


def _kind(text: str) -> Kind:
    scheme, _, rest = text.partition(":")
    scheme = scheme.lower()
    if scheme in _LATER:
        raise ValueError(
            f"{scheme}:// is not supported by this version: {_LATER[scheme]}"
            f" comes in a later one; {_SCHEMES} work"
        )
    if scheme in _KINDS and rest.startswith("//"):
        return _KINDS[scheme]
    if not text:
        raise ValueError(f"the URL is empty: it must start with {_SCHEMES}")
    if scheme in _KINDS:
        raise ValueError(f"the URL lacks the two slashes of {scheme}://")
    if "://" not in text:
        raise ValueError(f"the URL has no scheme: it must start with {_SCHEMES}")
    raise ValueError(f"the URL must start with {_SCHEMES}")


def _attempt(read: Callable[[], T]) -> T | None:
    """Return what `read` returns, or None; its error must not be the context of ours."""
    try:
        return read()
    except (ValueError, TypeError):
        return None


def _split(text: str) -> SplitResult:
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        # urlsplit() drops some of them in silence, from passwords too.
        raise ValueError("the URL has a tab, a line break or another control character in it")
    if _attempt(text.encode) is None:
        raise ValueError("the URL has characters in it that UTF-8 does not know")
    parts = _attempt(lambda: urlsplit(text))
    if parts is None:
        raise ValueError(
            "the URL cannot be split: brackets and letters outside of ASCII in a user name or"
            " password must be percent-encoded"
        )
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError(f"the URL has an @ (elsewhere: %40) behind its host: {_ESCAPE}")
    if "#" in text:
        raise ValueError(f"the URL has a part behind a #: {_ESCAPE}")
    return parts


def _address(parts: SplitResult, database: int | None) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    port = _attempt(lambda: parts.port)
    # What stands behind the colon: it may be empty.
    given = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]
    if given and not port:
        raise ValueError(f"the port in the URL must be a number from 1 to 65535; {_ESCAPE}")
    if port:
        settings["port"] = port
    if parts.hostname:
        host = unquote(parts.hostname)
        if not _HOST.fullmatch(host) or _attempt(lambda: host.encode("idna")) is None:
            raise ValueError(f"what stands for the host in the URL is no host; {_ESCAPE}")
        settings["host"] = host
    path = parts.path.strip("/")
    if path:
        if not (path.isascii() and path.isdecimal() and len(path) < 10):
            raise ValueError(f"the database in the URL must be a number; {_ESCAPE}")
        if database not in (None, int(path)):
            raise ValueError("the URL names two databases")
        settings["db"] = int(path)
    return settings


def _path(parts: SplitResult) -> dict[str, Any]:
    path = unquote(parts.path)
    if parts.netloc.rpartition("@")[2] or not path.strip("/") or "\0" in path:
        raise ValueError(f"a unix:// URL is unix:///path, with three slashes; {_ESCAPE}")
    return {"path": path}


# The arguments.


def _arguments(query: str, kind: Kind) -> dict[str, Any]:
    pairs = []
    if query:
        read = _attempt(lambda: parse_qsl(query, keep_blank_values=True, strict_parsing=True))
        if read is None:
            raise ValueError(f"what stands behind the ? in the URL must be name=value; {_ESCAPE}")
        pairs = read
    taken: dict[str, Any] = {}
    seen: set[str] = set()
    for name, text in pairs:
        if name not in _TAKEN and name not in _DROPPED:
            raise ValueError(
                "the URL has an argument that is not known here; known are"
                f" {', '.join(sorted({*_TAKEN, *_DROPPED}))}; {_ESCAPE}"
            )
        if name in seen:
            raise ValueError(f"{name} is in the URL twice")
        seen.add(name)
        if name in _TAKEN:
            if name.startswith("ssl_") and kind != "tls":
                raise ValueError(f"{name} in the URL needs rediss:// or valkeys://")
            taken[name] = _value(name, text)
    return taken


def _value(name: str, text: str) -> object:
    read, wanted = _TAKEN[name]
    value = _attempt(lambda: read(text))
    if value is None:
        raise ValueError(f"{name} in the URL must be {wanted}")
    if isinstance(value, _Weaker):
        raise ValueError(f"{name} in the URL would {value.what}{_ON_PURPOSE}")
    return value


@dataclass(frozen=True)
class _Weaker:
    """A value that makes TLS check less, and what it would do."""

    what: str


def _text(text: str) -> str | None:
    return text or None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _size(text: str) -> int | None:
    return _whole(text) or None


def _seconds(text: str) -> float | None:
    seconds = float(text)
    return seconds if math.isfinite(seconds) and 0.001 <= seconds <= LONGEST_LEASE else None


def _switch(text: str) -> bool | None:
    return _SWITCHES.get(text.lower())


def _checks_certificate(text: str) -> str | _Weaker | None:
    if text.lower() in ("none", "optional"):
        return _Weaker("switch off the check of the certificate")
    return "required" if text.lower() == "required" else None


def _checks_host(text: str) -> bool | _Weaker | None:
    if _switch(text) is False:
        return _Weaker("switch off the check of the name in the certificate")
    return _switch(text)


def _added_flags(text: str) -> list[ssl.VerifyFlags] | _Weaker | None:
    names = [name.strip() for name in text.strip("[]").split(",")]
    flags = [ssl.VerifyFlags.__members__.get(name) for name in names]
    known = [flag for flag in flags if flag is not None]
    if ssl.VerifyFlags.__members__.get("VERIFY_ALLOW_PROXY_CERTS") in known:
        return _Weaker("accept proxy certificates")
    return known if len(known) == len(flags) else None


def _removed_flags(_: str) -> _Weaker:
    return _Weaker("switch off a check of the certificate")


def _lowest_version(text: str) -> ssl.TLSVersion | _Weaker | None:
    version = ssl.TLSVersion(int(text))
    return version if version >= ssl.TLSVersion.TLSv1_2 else _Weaker("allow TLS below 1.2")


def _ciphers(text: str) -> str | _Weaker | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.set_ciphers(text)
    except ssl.SSLError:
        return None
    ciphers = context.get_ciphers()
    weak = any(each.get("auth") == "auth-null" or not each["strength_bits"] for each in ciphers)
    if weak or "@" in text:
        return _Weaker("allow connections without a certificate or without encryption")
    return text


_ON: dict[str, bool] = dict.fromkeys(("1", "t", "true", "y", "yes", "on"), True)
_OFF: dict[str, bool] = dict.fromkeys(("0", "f", "false", "n", "no", "off"), False)
_SWITCHES = _ON | _OFF
_TIMEOUTS = ("socket_connect_timeout", "socket_timeout")
_SOME_TEXT = (_text, "some text")
_A_SWITCH = (_switch, "true or false")
_A_TIME = (_seconds, "a number of seconds between 0.001 and ten years")

#: How each argument is read, and what is said when it cannot be.
_TAKEN: dict[str, tuple[Callable[[str], object], str]] = {
    "client_name": _SOME_TEXT,
    "db": (_whole, "a number"),
    "lib_name": _SOME_TEXT,
    "lib_version": _SOME_TEXT,
    "password": _SOME_TEXT,
    "socket_connect_timeout": _A_TIME,
    "socket_keepalive": _A_SWITCH,
    "socket_read_size": (_size, "a number above 0"),
    "socket_timeout": _A_TIME,
    "ssl_ca_certs": _SOME_TEXT,
    "ssl_ca_data": _SOME_TEXT,
    "ssl_ca_path": _SOME_TEXT,
    "ssl_cert_reqs": (_checks_certificate, "required"),
    "ssl_certfile": _SOME_TEXT,
    "ssl_check_hostname": (_checks_host, "true"),
    "ssl_ciphers": (_ciphers, "a list of ciphers that OpenSSL knows"),
    "ssl_exclude_verify_flags": (_removed_flags, ""),
    "ssl_include_verify_flags": (_added_flags, "names of ssl.VerifyFlags"),
    "ssl_keyfile": _SOME_TEXT,
    "ssl_min_version": (_lowest_version, "771 (TLS 1.2) or 772 (TLS 1.3)"),
    "ssl_password": _SOME_TEXT,
    "username": _SOME_TEXT,
}

#: What says how redis-py's own clients work. A URL may be shared with them; our stream repeats,
#: checks and decodes in its own way.
_DROPPED = (
    "decode_responses",
    "encoding",
    "encoding_errors",
    "health_check_interval",
    "legacy_responses",
    "max_connections",
    "protocol",
    "retry_on_timeout",
    "timeout",
)
