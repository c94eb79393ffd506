"""Explains connection failures without revealing the password."""

from __future__ import annotations

import socket
import ssl

import redis.exceptions

from redisson_py._redis.error_replies import is_try_again
from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError

__all__ = ["connect_error", "was_cut"]

_FINAL = (
    redis.exceptions.AuthenticationError,
    redis.exceptions.AuthorizationError,
    redis.exceptions.AuthenticationWrongNumberOfArgsError,
    redis.exceptions.NoPermissionError,
)

#: How OpenSSL says that what came was no TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")

#: How OpenSSL counts that a certificate is for another name, or another address.
_OTHER_NAME, _OTHER_ADDRESS = 62, 64

#: The remedy if other servers named the address.
_NAMES = (
    "; for certificates with host names, set cluster-preferred-endpoint-type hostname on a"
    " cluster, or sentinel announce-hostnames yes on Sentinels"
)

#: redis-py's text for a connection that the server closed.
_CLOSED = "Connection closed by server."

#: What follows in Redis' error for an unknown command; for HELLO, the password comes next.
_REPEATED = ", with args beginning with"

#: A text that shares this many consecutive characters with the password counts as revealing it.
_REVEALING_LENGTH = 6


def connect_error(
    error: Exception, where: str, password: object, announced: bool = False
) -> BackendError:
    """Return our error for a failed attempt to connect; its cause is `error`, if that is safe.

    `announced` says that other servers may have named the address, and not the user.

    It must be raised outside of the `except` that caught `error`, or `error` becomes its context.
    """
    if any(isinstance(each, UnicodeError) for each in _chain(error)):
        # The arguments of the error contain the whole text.
        return BackendError(
            f"cannot connect to Redis at {where}: cannot encode the host, the user name or the"
            " password"
        )
    if isinstance(error, redis.exceptions.RedisError | OSError) or _from_transport(error):
        problem = _meaning(error, where, password, announced)
    else:
        # A credential provider or connect function of the user's own.
        problem = BackendError(f"cannot connect to Redis at {where}: {error!r}")
    if not any(_tells(f"{each}\n{each!r}", password) for each in _answers(error)):
        problem.__cause__ = error
    return problem


def was_cut(error: BaseException | None) -> bool:
    """Whether a server that was reached broke the connection, or sent something other than RESP."""
    return error is not None and any(
        isinstance(each, ConnectionResetError | BrokenPipeError | redis.exceptions.InvalidResponse)
        or str(each) == _CLOSED
        for each in _chain(error)
    )


def _meaning(error: Exception, where: str, password: object, announced: bool) -> BackendError:
    text = _reason(error)
    if any(_tells(str(each), password) for each in _answers(error)):
        text = text.partition(_REPEATED)[0]
    if _tells(text, password) and _answers(error):
        text = "(its answer is hidden, because it contains part of the password)"
    if isinstance(error, _FINAL):
        return BackendError(f"Redis at {where} refused the credentials: {text}")
    for reason in _chain(error):
        if isinstance(reason, ssl.SSLError | ssl.CertificateError):
            if reason.reason in _NO_TLS:
                return BackendError(
                    f"TLS with Redis at {where} failed: its answer is not TLS, which rediss://,"
                    f" valkeys:// or ssl=True asked for: {reason}"
                )
            names = _NAMES if announced and _is_for_another(reason) else ""
            return BackendError(f"TLS with Redis at {where} failed: {reason}{names}")
        if isinstance(reason, FileNotFoundError) and ":" in where:
            return BackendError(f"TLS with Redis at {where} failed: a certificate file is missing")
    if isinstance(error, redis.exceptions.ResponseError):
        said = str(error)
        if "unknown command" in said.lower() or "NOPROTO" in said:
            return UnsupportedServerError(
                f"the server at {where} does not speak RESP3 (Redis 6.2 or newer is needed): {text}"
            )
        if not is_try_again(said):
            return BackendError(f"Redis at {where} refused the connection: {text}")
    return ConnectionLostError(f"no connection to Redis at {where}: {text}", maybe_held=False)


def _is_for_another(error: ssl.SSLError) -> bool:
    codes = (_OTHER_NAME, _OTHER_ADDRESS)
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in codes


def _reason(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return error.strerror or "unknown host"
    return str(error) or type(error).__name__


def _from_transport(error: Exception) -> bool:
    """Whether the event loop raised this because something was written to a broken connection.

    uvloop then raises RuntimeError, asyncio from Python 3.12 on AttributeError.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in ("asyncio", "uvloop")


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error with all its causes and contexts."""
    chain: list[BaseException] = []
    to_see: list[object] = [error]
    while to_see:
        each = to_see.pop(0)
        if isinstance(each, BaseException) and not any(each is seen for seen in chain):
            chain.append(each)
            to_see += [each.__cause__, each.__context__, *each.args]
    return chain


def _answers(error: BaseException) -> list[BaseException]:
    """Return the errors that may quote the server: none if the network failed."""
    chain = _chain(error)
    return [] if any(isinstance(each, OSError) for each in chain) else chain


def _tells(text: str, password: object) -> bool:
    """Whether a text has a part of the password: Redis 5 quotes commands it does not know."""
    if not password:
        return False
    secret = password.decode(errors="replace") if isinstance(password, bytes) else str(password)
    parts = {
        secret[n : n + _REVEALING_LENGTH]
        for n in range(max(1, len(secret) - _REVEALING_LENGTH + 1))
    }
    return _REPEATED in text or any(part in text for part in parts)
