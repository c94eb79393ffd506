"""What gRPC needs for TLS, read from files."""

from __future__ import annotations

import re
import ssl
from contextlib import suppress
from pathlib import Path

import grpc

#: What OpenSSL reads in a folder of authorities.
_IN_FOLDER = re.compile(r"[0-9a-f]{8}\.\d+")


def credentials(ca: str | None, cert: str | None, key: str | None) -> grpc.ChannelCredentials:
    """Return what TLS needs.

    Raises:
        ValueError: A file is missing or not usable, or only one of `cert` and `key` is given.
    """
    if (cert is None) != (key is None):
        raise ValueError("give cert and key, or neither")
    trusted = _of_system() if ca is None else _content(ca)
    own = [None if each is None else _content(each) for each in (key, cert)]
    # gRPC would find out when it connects, and not tell.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if ca is not None:
            context.load_verify_locations(ca)
        if cert is not None:
            # A key with a password would be asked for on the terminal; gRPC takes none.
            context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        raise ValueError(f"a TLS file is not usable: {error.reason}") from None
    return grpc.ssl_channel_credentials(trusted, *own)


def _of_system() -> bytes | None:
    """Return the authorities that Python trusts here; None: there are none, and gRPC has some.

    Debian has a folder of them, and no file where Python looks for one.
    """
    paths = ssl.get_default_verify_paths()
    contents = [_content(paths.cafile)] if paths.cafile else []
    for each in sorted(Path(paths.capath).iterdir()) if paths.capath else ():
        if _IN_FOLDER.fullmatch(each.name):
            with suppress(OSError):
                contents.append(each.read_bytes())
    return b"\n".join(contents) or None


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"a TLS file cannot be read: {error.strerror}") from None
