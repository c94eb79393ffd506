"""Names become paths, and URLs are read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py._stores.zookeeper.names import (
    blocker,
    directory_of,
    holding,
    in_order,
    is_path,
    prefix_of,
)
from redisson_py._stores.zookeeper.url import read_url


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/locks/a b", "/locks/a b"),
        ("/locks/%2F", "/locks/%2F"),
        ("/a/zookeeper", "/a/zookeeper"),
        ("/zookeepers", "/zookeepers"),
        ("plain", "/redisson_py/plain"),
        ("shop:{1}:ü€", "/redisson_py/shop:{1}:ü€"),
        ("a/b", "/redisson_py/a%2Fb"),
        ("50%", "/redisson_py/50%25"),
        ("", "/redisson_py/%"),
        (".", "/redisson_py/%2E"),
        ("..", "/redisson_py/%2E%2E"),
        ("...", "/redisson_py/..."),
        ("zookeeper", "/redisson_py/%7Aookeeper"),
        ("/", "/redisson_py/%2F"),
        ("/a/", "/redisson_py/%2Fa%2F"),
        ("//a", "/redisson_py/%2F%2Fa"),
        ("/a/../b", "/redisson_py/%2Fa%2F..%2Fb"),
        ("/zookeeper/quota", "/redisson_py/%2Fzookeeper%2Fquota"),
        ("/a\0", "/redisson_py/%2Fa%00"),
        ("\x1f\x7f\x9f", "/redisson_py/%1F%7F%C2%9F"),
        ("\uf8ff\ufff0", "/redisson_py/%EF%A3%BF%EF%BF%B0"),
        ("/🔒", "/redisson_py/%2F%F0%9F%94%92"),
    ],
)
def test_a_name_has_a_path(name: str, path: str) -> None:
    assert directory_of(name) == path


@given(st.text(max_size=20), st.text(max_size=20))
def test_every_name_has_a_path_of_its_own(one: str, two: str) -> None:
    assert is_path(directory_of(one))
    if one != two and not (is_path(one) or is_path(two)):
        assert directory_of(one) != directory_of(two)


def test_the_prefix_is_that_of_protected_nodes_of_curator() -> None:
    assert re.fullmatch(r"_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-", prefix_of("c:1"))
    assert prefix_of("c:1") == prefix_of("c:1") != prefix_of("c:11")


def test_contenders_are_in_the_order_of_their_numbers() -> None:
    children = [
        "_c_b-lock-0000000010",
        "lock-0000000009",
        "x",
        "_c_a-lock-0000000011",
        "0000000001",
    ]
    assert in_order(children) == [children[1], children[0], children[3]]


def test_reads_a_url() -> None:
    target = read_url("zookeeper://ann:se%40cret%3A@h1,h2:99/a/b/")
    assert (target.hosts, target.root, target.tls) == ("h1:2181,h2:99", "/a/b", None)
    assert target.digest == "ann:se@cret:"
    assert "cret" not in repr(target)
    assert read_url("zookeeper://h1/a%40b\n").root == "/a@b"
    assert (
        read_url("zookeeper://[::1],h.example.,h_2:7").hosts == "[::1]:2181,h.example.:2181,h_2:7"
    )
    secure = read_url("zookeepers://h1?ssl_ca_certs=/ca&ssl_certfile=/c&ssl_keyfile=/k")
    assert secure.tls == {"ca": "/ca", "certfile": "/c", "keyfile": "/k"}
    assert secure.digest is None


@pytest.mark.parametrize(
    "url",
    [
        "redis://ann:secret@h1",
        "zookeeper://",
        "zookeeper://ann:secret@",
        "zookeeper://ann:secret@h1,",
        "zookeeper://:secret@h1",
        "zookeeper://ann:secret@h1:0",
        "zookeeper://ann:secret@h1:70000",
        "zookeeper://ann:se/cret@h1",
        "zookeeper://ann:12/cret@h1",
        "zookeeper://ann:12/cret@h1:2181/a",
        "zookeepers://ann:12?ssl_ca_certs=cret@h1",
        "zookeeper://ann:se#cret@h1",
        "zookeeper://ann:se\ncret@h1",
        "zookeeper://ann:secret%ff@h1",
        "zookeeper://ann:secret\ud800@h1",
        "zookeeper://ann:secret@h1..example",
        f"zookeeper://ann:secret@{'h' * 64}",
        "zookeeper://ann:se[cret@h1",
        "zookeeper://ann:secret@h1/a//b",
        "zookeeper://ann:secret@h1/zookeeper",
        "zookeeper://ann:secret@h1?ssl_ca_certs=/ca",
        "zookeepers://ann:secret@h1?secret=1",
        "zookeepers://ann:secret@h1?ssl_certfile=/c",
        "zookeepers://ann:secret@h1?ssl_ca_certs=",
    ],
)
def test_a_malformed_url_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ValueError, match=r"ssl_|URL") as caught:
        read_url(url)
    assert "cret" not in f"{caught.value}{caught.value.__cause__}{caught.value.__context__}"


def test_the_store_says_where_it_is_without_credentials() -> None:
    store = ZooKeeperStore.from_url("zookeeper://ann:secret@a:1,b,[::1]:3/apps")
    assert store.where == "a:1,b:2181,[::1]:3/apps"
    assert "secret" not in repr(store)


def test_a_url_is_text() -> None:
    with pytest.raises(TypeError, match="bytes"):
        read_url(b"zookeeper://h1")


def test_the_order_of_reads_and_writes() -> None:
    lock, write = "_c_z-lock-0000000001", "_c_z-__WRIT__0000000002"
    under = "_c_a-__READ__0000000002"
    read, late = "_c_b-__READ__0000000001", "_c_a-__WRIT__0000000003"
    assert in_order([late, under, write, lock, read, "config"], "read") == [
        read,
        write,
        under,
        late,
    ]
    assert in_order([late, under, write, lock, read], "lock") == [lock]


def test_a_writer_waits_for_the_one_before_it() -> None:
    read, write = "_c_b-__READ__0000000001", "_c_z-__WRIT__0000000002"
    assert blocker([read, write], write, "write") == read
    assert blocker([write], write, "write") is None
    third = "_c_a-__WRIT__0000000003"
    assert blocker([read, write, third], third, "write") == write


def test_a_reader_waits_for_the_last_write_before_it() -> None:
    first, second = "_c_z-__WRIT__0000000001", "_c_y-__WRIT__0000000002"
    read = "_c_b-__READ__0000000003"
    assert blocker([first, second, read], read, "read") == second
    assert blocker([first, second, read], read, "read", within=second) == first
    assert blocker([first, second, read], read, "read", within=first) == second
    assert blocker(["_c_c-__READ__0000000002", read], read, "read") is None


def test_those_that_hold() -> None:
    write, under = "_c_z-__WRIT__0000000002", "_c_a-__READ__0000000002"
    late, read = "_c_y-__WRIT__0000000003", "_c_b-__READ__0000000004"
    assert holding([]) == (None, [])
    assert holding([write, under, late, read]) == (write, [under])
    assert holding([under, late, read]) == (None, [under])
    assert holding(["_c_z-lock-0000000001", "_c_z-lock-0000000002"]) == (
        "_c_z-lock-0000000001",
        [],
    )
