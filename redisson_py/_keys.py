"""How keys and channels are named, as Redisson derives them from the name of a resource.

Names that only one kind of resource uses are made from these functions in its file of
`_redis/commands`.

Redisson's rule is literal: does the name contain an opening brace? It is followed to the
letter, because a Java service computes the same names.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable

#: Raised when an older client of this library could misread what a newer one wrote.
LAYOUT = 1

#: How many slots every cluster has.
SLOTS = 16384

#: Longest resource name in bytes: long enough for any sane name, short enough for a log line.
LONGEST_NAME_BYTES = 4096

Name = str | bytes
NameMapper = Callable[[str], str]


def prefixed(prefix: bytes, key: bytes) -> bytes:
    """Return `prefix:{key}`, or `prefix:key` where the key has a hash tag of its own."""
    return prefix + b":" + key if b"{" in key else prefix + b":{" + key + b"}"


def suffixed(key: bytes, suffix: bytes) -> bytes:
    """Return `{key}:suffix`, or `key:suffix` where the key has a hash tag of its own."""
    return key + b":" + suffix if b"{" in key else b"{" + key + b"}:" + suffix


def lock_channel(key: bytes) -> bytes:
    """Return the channel on which releases of the lock at `key` are announced."""
    return prefixed(b"redisson_lock__channel", key)


def read_write_channel(key: bytes) -> bytes:
    """Return the channel on which releases of the read-write lock at `key` are announced."""
    return prefixed(b"redisson_rwlock", key)


def permit_channel(key: bytes) -> bytes:
    """Return the channel on which permits of the semaphore at `key` are announced."""
    return prefixed(b"redisson_sc", key)


def latch_channel(key: bytes) -> bytes:
    """Return the channel of the latch at `key`: with braces even where the key has its own."""
    return b"redisson_countdownlatch__channel__{" + key + b"}"


def barrier_channel(key: bytes) -> bytes:
    """Return the channel whose messages make parties of the barrier at `key` ask again."""
    return prefixed(b"redisson_py_barrier", key)


def rate_channel(key: bytes) -> bytes:
    """Return the channel whose messages make those that wait for the limiter at `key` ask again."""
    return prefixed(b"redisson_py_rate", key)


def election_channel(key: bytes) -> bytes:
    """Return the channel on which changes of the leader of the election at `key` are announced."""
    return prefixed(b"redisson_py_election", key)


def fencing_token(key: bytes) -> bytes:
    """Return the counter of the fenced lock at `key`."""
    return prefixed(b"redisson_lock_token", key)


def once(key: bytes) -> bytes:
    """Return the lock of who runs the once-only job at `key`; its other keys are made from it.

    Names may come from outside, as idempotency keys do: `a` and `{a}` have different locks, unlike
    derived keys of Redisson.
    """
    return prefixed(b"redisson_py:once:" if b"{" in key else b"redisson_py:once", key)


def once_record(lock: bytes) -> bytes:
    """Return the record that the once-only job with this lock is done; no name has it as lock."""
    return prefixed(b"redisson_py:record", lock)


def tombstone(key: bytes, owner: Name) -> bytes:
    """Return the key that says `owner` is done with `key`, so that a late acquire is refused."""
    return suffixed(key, b"redisson_py:tombstone:" + _bytes(owner))


def version_key(key: bytes, field: Name) -> bytes:
    """Return the key of the latest change to the hold of `field`, so that older ones are void."""
    return suffixed(key, b"redisson_py:version:" + _bytes(field))


def waiting_writers(key: bytes) -> bytes:
    """Return the key of the writers for which readers of the read-write lock at `key` wait."""
    return suffixed(key, b"redisson_py:writers")


def waiting_clients(key: bytes) -> bytes:
    """Return the queue of the clients that wait for what is at `key`."""
    return suffixed(key, b"redisson_py:clients")


def hash_tag(key: bytes) -> bytes | None:
    """Return the part in braces that alone decides the slot of `key`; None if all of it does."""
    start = key.find(b"{") + 1
    end = key.find(b"}", start) if start else 0
    return key[start:end] if end > start else None


def key_slot(key: bytes) -> int:
    """Return the slot of a cluster that `key` belongs to.

    redis-py has the same function, but is not imported before there is a client.
    """
    start = key.find(b"{") + 1
    if start:
        end = key.find(b"}", start)
        if end > start:
            key = key[start:end]
    return crc_hqx(key, 0) % SLOTS


def client_description(prefix: str, client_id: str) -> bytes:
    """Return the key under which a client describes itself, for `inspect`."""
    return f"{prefix}redisson_py:client:{client_id}".encode()


class Names:
    """Turns what users call a resource into its Redis key.

    Attributes:
        in_cluster: Refuse names whose keys a cluster would keep in several slots.
    """

    def __init__(
        self,
        prefix: str = "",
        name_mapper: NameMapper | None = None,
        *,
        in_cluster: bool = False,
    ) -> None:
        if not isinstance(prefix, str):
            raise TypeError(f"prefix must be str, not {type(prefix).__name__}")
        if name_mapper is not None and not callable(name_mapper):
            raise TypeError("name_mapper must be callable")
        if prefix and name_mapper is not None:
            raise ValueError("give prefix or name_mapper, not both")
        if prefix:
            _encode(prefix, "prefix")
        self.prefix = prefix
        self.in_cluster = in_cluster
        self._mapper = name_mapper
        #: The types of names whose key never changes. A mapper may return another one each time.
        self.fixed: frozenset[type] = frozenset((str, bytes) if name_mapper is None else ())

    def key(self, name: Name, channel: Callable[[bytes], bytes] = lock_channel) -> bytes:
        """Return the key of the resource `name`.

        Args:
            name: What users call it.
            channel: Returns the channel of a resource of this kind, from its key.

        Raises:
            TypeError: The name is neither str nor bytes.
            ValueError: It is empty, longer than 4 KiB, or not encodable as UTF-8; or its keys
                would lie in several slots of a cluster.
        """
        key = _encode(name, "name")
        if self._mapper is not None:
            key = _encode(self._mapper(_decode(key)), "the result of name_mapper")
        elif self.prefix:
            key = self.prefix.encode() + key
        if len(key) > LONGEST_NAME_BYTES:
            raise ValueError(f"name must be at most {LONGEST_NAME_BYTES} bytes, not {len(key)}")
        if self.in_cluster and (b"{" in key or b"}" in key):
            _check_slots(name, key, channel(key))
        return key


def _check_slots(name: Name, key: bytes, channel: bytes) -> None:
    """Refuse a name with braces if what is derived from it falls into another slot than its key.

    Every derived key has a prefix or a suffix of `prefixed` and `suffixed`, which share the hash
    tag; only a latch's channel has one of its own. Derived keys without a hash tag differ in their
    slots, as they differ in their text.
    """
    slot = key_slot(key)
    for derived in (channel, suffixed(key, b"redisson_py:receipt")):
        tag = hash_tag(derived)
        if tag is None or key_slot(tag) != slot:
            # A latch's channel gets braces even where the name has a hash tag.
            cure = (
                "" if hash_tag(key) else ", or put a pair around one part of it, as in '{orders}:7'"
            )
            raise ValueError(
                f"{name!r} cannot be used in a cluster: with these braces {_shown(key)} is in slot"
                f" {slot}, but {_shown(derived)} in slot {key_slot(derived)}. Remove the braces"
                f" from the name{cure}"
            )


def _shown(key: bytes) -> str:
    return repr(key.decode(errors="backslashreplace"))


def _bytes(text: Name) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _encode(name: object, what: str) -> bytes:
    if not isinstance(name, str | bytes):
        raise TypeError(f"{what} must be str or bytes, not {type(name).__name__}")
    if not name:
        raise ValueError(f"{what} must not be empty")
    if isinstance(name, bytes):
        return name
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is not valid text: {error.reason}") from None


def _decode(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise ValueError("name_mapper takes text, and this name is not UTF-8") from None
