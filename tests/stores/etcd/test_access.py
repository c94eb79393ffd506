"""How the store reaches a cluster of etcd: URLs, TLS, users, several endpoints."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool

from redisson_py._stores.etcd import EtcdStore, messages
from redisson_py._stores.etcd.url import Target, read_url
from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError
from redisson_py.etcd import Etcd, Leader
from tests.stores.bell import Bell
from tests.stores.etcd.client import LEASE, Client, counted, soon
from tests.stores.etcd.server import ESCAPED, EtcdServer, GuardedServer, add_users
from tests.support.certificates import Certificates, make_certificates


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("etcd://one", Target(False, ("one:2379",), "", "")),
        ("ETCDS://one:1,two,one:1/", Target(True, ("one:1", "two:2379"), "", "")),
        ("etcd://[::1]:4", Target(False, ("[::1]:4",), "", "")),
        ("etcd://u%40x:p%3a%2f@h", Target(False, ("h:2379",), "u@x", "p:/")),
    ],
)
def test_urls(url: str, target: Target) -> None:
    assert read_url(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "etcd:",
        "etcd://",
        "redis://hidden",
        "etcd://hidden,",
        "etcd://hidden:0",
        "etcd://hidden:65536",
        "etcd://hidden:port",
        "etcd://hidden/path",
        "etcd://hidden?x=1",
        "etcd://hidden@host",
        "etcd://:hidden@host",
        "etcd://u:hidden:x@host",
        "etcd://u:hid@den@host",
        "etcd://u:hid/den@host",
        "etcd://u:hidden%ff@host",
        "etcd://hid den",
        "etcd://hid\nden",
    ],
)
def test_bad_urls_are_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        EtcdStore.from_url(url)
    assert "hid" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_url_is_a_text() -> None:
    with pytest.raises(TypeError, match="not bytes"):
        read_url(b"etcd://one")


def test_a_password_is_in_no_repr() -> None:
    store = EtcdStore.from_url("etcd://user:hidden@one,two:1")
    assert repr(store) == "<EtcdStore at one:2379, two:1>"
    assert "hidden" not in repr(read_url("etcd://user:hidden@one"))


def test_our_messages_are_in_no_shared_pool() -> None:
    # Two packages with etcd's messages in one pool cannot be imported together.
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileByName("redisson_py_etcd.proto")
    file = messages.status().DESCRIPTOR.file
    assert file.name == "redisson_py_etcd.proto"
    assert file.pool is not descriptor_pool.Default()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls") / "one", "IP:127.0.0.1")


def test_tls_files_must_be_of_use(certificates: Certificates, tmp_path: Path) -> None:
    """gRPC itself would tell nothing but that it could not connect."""
    authority, certificate, key = (
        str(each) for each in (certificates.authority, certificates.certificate, certificates.key)
    )
    (tmp_path / "text").write_text("no certificate")
    text, locked = str(tmp_path / "text"), str(tmp_path / "locked")
    command = ["openssl", "pkey", "-in", key, "-aes128", "-passout", "pass:word", "-out", locked]
    subprocess.run(command, check=True, capture_output=True)
    other = make_certificates(tmp_path / "other", "IP:127.0.0.1")
    for files, says in (
        ({"ca": str(tmp_path / "none")}, "cannot be read: No such file"),
        ({"cert": certificate}, "cert and key"),
        ({"ca": text}, "not usable"),
        ({"cert": text, "key": key}, "not usable"),
        ({"cert": certificate, "key": str(other.key)}, "not usable"),
        ({"cert": certificate, "key": locked}, "not usable"),
    ):
        with pytest.raises(ValueError, match=says):
            Client("etcds://one", LEASE, **{"ca": authority, **files})


async def test_tls(certificates: Certificates) -> None:
    with EtcdServer(certificates) as server:
        async with Client(server.url, ca=str(certificates.authority)) as client:
            await client.granted("a", "a:1")
        # The authorities of the system do not know ours.
        with pytest.raises(BackendError, match=r"TLS with etcd at .* failed") as caught:
            await EtcdStore.from_url(server.url).start(Bell(), soon())
        assert not isinstance(caught.value, ConnectionLostError)
        plain = EtcdStore.from_url(server.url.replace("etcds", "etcd"))
        with pytest.raises(ConnectionLostError):
            await plain.start(Bell(), soon(0.5))


async def test_tls_with_the_authorities_of_the_system(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of them, as on Debian, and a file, as elsewhere."""
    command = ["openssl", "x509", "-hash", "-noout", "-in", str(certificates.authority)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, check=True, text=True
    )
    (tmp_path / f"{done.stdout.strip()}.0").write_bytes(certificates.authority.read_bytes())
    (tmp_path / "0123abcd.0").symlink_to("missing")
    (tmp_path / "empty").mkdir()
    with EtcdServer(certificates) as server:
        for file, folder in (("missing", tmp_path), (certificates.authority, tmp_path / "empty")):
            monkeypatch.setenv("SSL_CERT_FILE", str(file))
            monkeypatch.setenv("SSL_CERT_DIR", str(folder))
            async with Client(server.url) as client:
                await client.granted("a", "a:1")


async def test_a_user_has_what_its_role_has(guarded: GuardedServer) -> None:
    async with Client(guarded.url) as client:
        await client.granted("ours/a", "a:1")
        async with Client(guarded.url_of("root")) as other:
            await other.ask("ours/a", "b:1", waits=True)
            await client.give_back("ours/a", "a:1")
            await other.bell.heard("ours/a")
        with pytest.raises(BackendError, match="needs readwrite on the names") as caught:
            await client.ask("theirs/a", "a:2")
        assert not isinstance(caught.value, ConnectionLostError)


async def test_a_user_that_may_only_read_observes_elections(guarded: GuardedServer) -> None:
    async with (
        Etcd.from_url(guarded.url) as one,
        Etcd.from_url(guarded.url_of("reader")) as reader,
    ):
        election = reader.get_election("ours/leader")
        states = election.observe()
        assert await anext(states) is None
        for value in (b"one", b"two"):
            async with asyncio.timeout(60), one.get_election("ours/leader").campaign(value) as led:
                assert await anext(states) == Leader(value, led.token)
            assert await anext(states) is None
        await states.aclose()
        with pytest.raises(BackendError, match="needs readwrite on the names"):
            async with election.campaign("three"):
                pytest.fail("it leads")
        with pytest.raises(BackendError, match="permission denied"):
            await anext(reader.get_election("theirs/leader").observe())


async def test_an_old_token_is_replaced(guarded: GuardedServer) -> None:
    """As when there was no call for some minutes, or the member has started again."""
    async with Client(guarded.url) as client, Client(guarded.url) as other:
        await client.granted("ours/b", "a:1")
        client.store._link._token = "not.a.token"
        await client.granted("ours/c", "a:2")
        # Nothing is uncertain after a refusal: so no undo is noted.
        await client.give_back("ours/b", "a:1")
        assert guarded.keys("redisson_py/") == []
        other.store._link._token = "not.a.token"
        await other.ask("ours/c", "b:1", waits=True)
        await client.give_back("ours/c", "a:2")
        await other.bell.heard("ours/c")


async def test_one_of_all_that_need_a_token_asks_for_it(
    guarded: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time costs etcd a check of the password, which is slow on purpose."""
    async with Client(guarded.url) as client:
        await client.granted("ours/a", "a:0")
        counts = counted(client, monkeypatch)
        client.store._link._token = "not.a.token"
        await asyncio.gather(
            *(client.granted(f"ours/b{number}", f"a:{number}") for number in range(40))
        )
        assert counts[messages.AUTHENTICATE.path] == 1


async def test_users_come_while_a_client_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with EtcdServer() as server:
        async with Client(f"etcd://app:{ESCAPED}@{server.address}") as client:
            counts = counted(client, monkeypatch)
            for number in range(3):
                await client.granted(f"ours/a{number}", f"a:{number}")
            # It knows that nobody wants a token.
            assert counts[messages.AUTHENTICATE.path] == 0
            await asyncio.to_thread(add_users, server)
            await client.granted("ours/b", "a:4")
            await client.granted("ours/c", "a:5")
            assert counts[messages.AUTHENTICATE.path] == 1


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ("app:wrong@", "refused the credentials"),
        (f"nobody:{ESCAPED}@", "refused the credentials"),
        ("", "requires a user name and a password"),
    ],
)
async def test_wrong_users_are_refused(guarded: GuardedServer, user: str, says: str) -> None:
    client = Client(f"etcd://{user}{guarded.address}")
    with pytest.raises(BackendError, match=says) as caught:
        async with client:
            await client.ask("ours/a", "a:1")
    assert not isinstance(caught.value, ConnectionLostError)
    assert "wrong" not in str(caught.value)


async def test_the_next_endpoint_is_tried(guarded: GuardedServer) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{unheard.getsockname()[1]}"
        async with Client(f"etcd://app:{ESCAPED}@{where},{guarded.address}") as client:
            await client.granted("ours/d", "a:1")
        nobody = EtcdStore.from_url(f"etcd://{where}")
        with pytest.raises(ConnectionLostError, match="in time") as caught:
            await nobody.start(Bell(), soon(0.3))
        assert not caught.value.maybe_held
        assert caught.value.__cause__ is not None


async def test_an_old_server_is_refused(
    guarded: GuardedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EtcdStore.from_url(guarded.url)
    monkeypatch.setattr("redisson_py._stores.etcd.store._OLDEST_VERSION", (99, 0))
    with pytest.raises(UnsupportedServerError, match="or newer is required"):
        await store.start(Bell(), soon())


_FORKS = """
import asyncio, os, sys
from redisson_py._stores.etcd import EtcdStore
from redisson_py._time import now
from redisson_py.errors import BackendError

class Bell:
    def ring_all(self): pass

async def use():
    store = EtcdStore.from_url(sys.argv[1])
    await store.start(Bell(), now() + 10)
    await store.stop()

def child(work):
    if not (pid := os.fork()):
        try:
            asyncio.run(work)
        except BackendError as error:
            os._exit(3 if "forked after" in str(error) else 4)
        os._exit(0)
    work.close()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

before = child(use())
asyncio.run(use())
print(before, child(use()))
"""


def test_a_fork_after_a_client_was_used_learns_that_grpc_is_lost(server: EtcdServer) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKS, server.url],
        capture_output=True,
        text=True,
        timeout=90,
    )
    # Before a client was used, and after it was closed.
    assert done.stdout.split() == ["0", "3"], done.stderr
