"""What gRPC needs for TLS, read from files."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc


def credentials(ca: str | None, cert: str | None, key: str | None) -> grpc.ChannelCredentials:
    """Return what TLS needs.

    Raises:
        ValueError: A file is missing, or only one of `cert` and `key` is given.
    """
    if (cert is None) != (key is None):
        raise ValueError("give cert and key, or neither")
    trusted = ca or ssl.get_default_verify_paths().cafile
    contents = [None if each is None else _content(each) for each in (trusted, key, cert)]
    return grpc.ssl_channel_credentials(*contents)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"a file for TLS cannot be read: {error.strerror}") from None
