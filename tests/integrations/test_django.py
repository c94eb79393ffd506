"""A real Django site, whose views take turns under WSGI and ASGI."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.support import repository
from tests.support.waiting import until_async
from tests.sync.threads import until

SITE = "tests.integrations.django_site"
SERVERS = {
    "wsgi": ("gunicorn", "--preload", "-w2", "--threads=4", "-bfd://{fd}", f"{SITE}.wsgi"),
    "asgi": ("uvicorn", "--fd={fd}", "--log-level=error", f"{SITE}.asgi:application"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the site writes."""
    (tmp_path / "number").write_text("0")
    return tmp_path


@contextmanager
def site(folder: Path, url: str, *command: str, fd: int = -1) -> Iterator[subprocess.Popen[str]]:
    """Run a module with the site's settings."""
    variables = {
        "SITE_FOLDER": str(folder),
        "SITE_REDIS": url,
        "DJANGO_SETTINGS_MODULE": f"{SITE}.settings",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=repository.ROOT,
        env={**os.environ, **variables},
        pass_fds=() if fd < 0 else (fd,),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", SERVERS)
async def test_no_request_overlaps_another(kind: str, folder: Path, server_url: str) -> None:
    paths = ["/add"] if kind == "wsgi" else ["/add", "/add_async"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd = listener.fileno()
        command = [each.replace("{fd}", str(fd)) for each in SERVERS[kind]]
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with site(folder, server_url, *command, fd=fd) as server:
            async with httpx.AsyncClient(base_url=base, timeout=60, trust_env=False) as http:
                done = 0

                async def answers() -> bool:
                    nonlocal done
                    try:
                        done += (await http.get("/add")).status_code == 200
                    except httpx.TransportError:
                        return False
                    return done > 0

                await until_async(answers, 60)
                found = await asyncio.gather(*[http.get(path) for path in paths * 30])
                assert {each.status_code for each in found} == {200}
                assert (folder / "number").read_text() == str(done + 30 * len(paths))
                if kind == "asgi":
                    error = (await http.get("/add_wrongly")).json()["error"]
                    assert "from redisson_py import Redisson" in error
            server.send_signal(signal.SIGTERM)
            _, errors = await asyncio.to_thread(server.communicate, timeout=60)
    assert "Traceback" not in errors
    assert "closing while still holding" not in errors
    until(lambda: server.returncode is not None)
