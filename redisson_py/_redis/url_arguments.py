"""The arguments after the ? of a URL: which exist, and how each is read.

No error quotes a value, or an argument that does not exist: see `redisson_py._url`.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from redisson_py._time import LONGEST_LEASE_SECONDS
from redisson_py._url import ESCAPE, attempt

__all__ = ["read_arguments"]


_ON_PURPOSE = (
    "; if you want that, create a redis.asyncio.Redis with the setting and pass it to Redisson"
)


def read_arguments(query: str) -> dict[str, Any]:
    """Return the arguments of a query that are used.

    Raises:
        ValueError: One does not exist, is there twice, is malformed or switches TLS checks off.
    """
    pairs = []
    if query:
        read = attempt(lambda: parse_qsl(query, keep_blank_values=True, strict_parsing=True))
        if read is None:
            raise ValueError(f"the URL needs name=value after its ?; {ESCAPE}")
        pairs = read
    taken: dict[str, Any] = {}
    seen: set[str] = set()
    for name, text in pairs:
        if name not in _TAKEN and name not in _DROPPED:
            raise ValueError(
                "the URL has an unknown argument; known are"
                f" {', '.join(sorted({*_TAKEN, *_DROPPED}))}; {ESCAPE}"
            )
        if name in seen:
            raise ValueError(f"the URL contains {name} twice")
        seen.add(name)
        if name in _TAKEN:
            taken[name] = _value(name, text)
    return taken


def _value(name: str, text: str) -> object:
    read, wanted = _TAKEN[name]
    value = attempt(lambda: read(text))
    if value is None:
        raise ValueError(f"{name} in the URL must be {wanted}")
    if isinstance(value, _Weaker):
        raise ValueError(f"{name} in the URL would {value.what}{_ON_PURPOSE}")
    return value


@dataclass(frozen=True)
class _Weaker:
    """A value that would weaken the checks of TLS, and its effect."""

    what: str


def _text(text: str) -> str | None:
    return text or None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _size(text: str) -> int | None:
    return _whole(text) or None


def _seconds(text: str) -> float | None:
    seconds = float(text)
    return seconds if math.isfinite(seconds) and 0.001 <= seconds <= LONGEST_LEASE_SECONDS else None


def _switch(text: str) -> bool | None:
    return _SWITCHES.get(text.lower())


def _checks_certificate(text: str) -> str | _Weaker | None:
    if text.lower() in ("none", "optional"):
        return _Weaker("turn off the certificate check")
    return "required" if text.lower() == "required" else None


def _checks_host(text: str) -> bool | _Weaker | None:
    if _switch(text) is False:
        return _Weaker("turn off the check of the name in the certificate")
    return _switch(text)


def _added_flags(text: str) -> list[ssl.VerifyFlags] | _Weaker | None:
    names = [name.strip() for name in text.strip("[]").split(",")]
    flags = [ssl.VerifyFlags.__members__.get(name) for name in names]
    known = [flag for flag in flags if flag is not None]
    if ssl.VerifyFlags.__members__.get("VERIFY_ALLOW_PROXY_CERTS") in known:
        return _Weaker("accept proxy certificates")
    return known if len(known) == len(flags) else None


def _removed_flags(_: str) -> _Weaker:
    return _Weaker("turn off a certificate check")


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
_SOME_TEXT = (_text, "a non-empty text")
_A_SWITCH = (_switch, "true or false")
_A_TIME = (_seconds, "a number of seconds between 0.001 and ten years")

#: How each argument is read, and the error text if it cannot be.
_TAKEN: dict[str, tuple[Callable[[str], object], str]] = {
    "client_name": _SOME_TEXT,
    "db": (_whole, "a number"),
    "lib_name": _SOME_TEXT,
    "lib_version": _SOME_TEXT,
    "password": _SOME_TEXT,
    "sentinel_password": _SOME_TEXT,
    "sentinel_ssl": _A_SWITCH,
    "sentinel_username": _SOME_TEXT,
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

#: Arguments that concern redis-py's own clients, which may share the URL. Our stream has its own
#: ways of retrying, checking and decoding.
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
