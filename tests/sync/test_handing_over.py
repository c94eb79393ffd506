"""A lease goes to another process, for threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from redisson_py import NotHeldError
from redisson_py.sync import FencedLease, Redisson
from tests.sync.threads import ClientFactory, in_thread

pytestmark = [pytest.mark.also("newest", "floor"), pytest.mark.heart]

ADOPT = """\
import sys
from redisson_py.sync import Redisson

with Redisson.from_url(sys.argv[1]) as client:
    with client.adopt(sys.stdin.read(), name="k") as lease:
        print(lease.token, client.get_fenced_lock("k").owned())
"""


def test_another_process_goes_on_with_it(client: Redisson, server_url: str) -> None:
    lock = client.get_fenced_lock("k")
    with lock as lease:
        token = lease.hand_over()
        assert not lock.owned()
        ran = subprocess.run(
            [sys.executable, "-c", ADOPT, server_url],
            input=token,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert ran.stdout.split() == [str(lease.token), "True"]
        with pytest.raises(NotHeldError, match="handed over"):
            lease.release()
    with pytest.raises(NotHeldError, match="already adopted"):
        client.adopt(token)
    with lock as after:
        assert after.token > lease.token


def test_another_thread_goes_on_with_it(clients: ClientFactory) -> None:
    client, other = clients(), clients()
    lock = client.get_lock("k")
    token = lock.acquire().hand_over(lease_time=60)

    def go_on() -> None:
        with other.adopt(token) as adopted:
            assert other.get_lock("k").owned()
            assert lock.try_acquire() is None
            assert adopted.token is None

    in_thread(go_on)
    with lock:
        pass


def test_what_is_refused(client: Redisson) -> None:
    lease = client.get_fenced_lock("k").acquire()
    with pytest.raises(ValueError, match="lease_time"):
        lease.hand_over(lease_time=-1)
    token = lease.hand_over()
    with pytest.raises(ValueError, match="not for 'other'"):
        client.adopt(token, name="other")
    with pytest.raises(ValueError, match="damaged"):
        client.adopt(token[:-2])
    adopted = client.adopt(token)
    assert isinstance(adopted, FencedLease)
    adopted.release()
