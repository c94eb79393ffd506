"""Certificates for tests, made with openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """An authority and a server's certificate from it.

    Attributes:
        authority: The certificate that a client must trust.
        certificate: The server's.
        key: Its key.
    """

    authority: Path
    certificate: Path
    key: Path

    @property
    def files(self) -> tuple[Path, Path, Path]:
        """What `EmbeddedServer(tls=...)` takes."""
        return self.certificate, self.key, self.authority


def make_certificates(folder: Path, name: str) -> Certificates:
    """Make an authority and a certificate for `name`, such as `IP:127.0.0.1`."""
    folder.mkdir()
    made = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    ca_key, request, extensions = folder / "ca.key", folder / "server.csr", folder / "ext"
    # All that Python 3.13 insists on (VERIFY_X509_STRICT).
    extensions.write_text(
        f"subjectAltName={name}\n"
        "basicConstraints=CA:FALSE\n"
        "subjectKeyIdentifier=hash\n"
        "authorityKeyIdentifier=keyid\n",
        encoding="utf-8",
    )
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl(
        *("req", "-x509", *new_key, "-days", "2", "-subj", "/CN=authority"),
        *("-addext", "keyUsage=critical,keyCertSign"),
        *("-keyout", ca_key, "-out", made.authority),
    )
    _openssl("req", *new_key, "-subj", "/CN=server", "-keyout", made.key, "-out", request)
    _openssl(
        *("x509", "-req", "-in", request, "-days", "2", "-extfile", extensions),
        *("-CA", made.authority, "-CAkey", ca_key, "-set_serial", "1", "-out", made.certificate),
    )
    return made


def _openssl(*args: str | Path) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=30)
