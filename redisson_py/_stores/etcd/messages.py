"""The messages of etcd's API that the store uses, as protobuf reads and writes them.

They live in a descriptor pool of their own, so nothing here can collide with another etcd package
in the process. On the wire only numbers and types of fields count, and the paths of calls. Each
field is optional in the sense of proto2: what is set is sent, zero too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

#: A message of the pool: its fields are attributes.
Message = Any

_PACKAGE = "redisson_py_etcd"
#: A line for each message: its fields with type and number. `*` is repeated; another message's
#: name is a type.
_SCHEMA = """
Header: revision=int64:3 term=uint64:4
Entry: key=bytes:1 create_revision=int64:2 mod_revision=int64:3 value=bytes:5 lease=int64:6
Range: key=bytes:1 range_end=bytes:2 limit=int64:3 revision=int64:4 sort_order=int32:5 \
    sort_target=int32:6 keys_only=bool:8 count_only=bool:9 max_create_revision=int64:13
RangeReply: header=Header:1 kvs=*Entry:2 count=int64:4
Put: key=bytes:1 value=bytes:2 lease=int64:3 ignore_value=bool:5 ignore_lease=bool:6
PutReply: header=Header:1
Delete: key=bytes:1 range_end=bytes:2
DeleteReply: header=Header:1 deleted=int64:2
Operation: range=Range:1 put=Put:2 delete=Delete:3 txn=Txn:4
OperationReply: range=RangeReply:1 put=PutReply:2 delete=DeleteReply:3 txn=TxnReply:4
Compare: result=int32:1 target=int32:2 key=bytes:3 create_revision=int64:5 mod_revision=int64:6 \
    value=bytes:7 range_end=bytes:64
Txn: compare=*Compare:1 success=*Operation:2 failure=*Operation:3
TxnReply: header=Header:1 succeeded=bool:2 responses=*OperationReply:3
LeaseGrant: seconds=int64:1 id=int64:2
LeaseGrantReply: header=Header:1 id=int64:2 seconds=int64:3
Lease: id=int64:1
LeaseReply: header=Header:1 id=int64:2 seconds=int64:3
WatchCreate: key=bytes:1 range_end=bytes:2 start_revision=int64:3 filters=*int32:5 watch_id=int64:7
WatchCancel: watch_id=int64:1
Watch: create=WatchCreate:1 cancel=WatchCancel:2
Event: type=int32:1 kv=Entry:2
WatchReply: header=Header:1 watch_id=int64:2 created=bool:3 canceled=bool:4 \
    compact_revision=int64:5 cancel_reason=string:6 events=*Event:11
Authenticate: name=string:1 password=string:2
AuthenticateReply: header=Header:1 token=string:2
Status:
StatusReply: header=Header:1 version=string:2
"""

#: How many operations etcd must take in a transaction: a noted undo needs that many.
MOST_OPERATIONS = 7

_EQUAL, _NOT_EQUAL = 0, 3
_BY_CREATION, _BY_CHANGE, _BY_VALUE = 1, 2, 3
_DESCENDING, _ASCENDING, _CREATION = 2, 1, 2
NO_PUTS = 0


def _message_types() -> dict[str, Any]:
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2"
    )
    for row in _SCHEMA.strip().splitlines():
        name, _, fields = row.partition(":")
        message = file.message_type.add(name=name)
        for each in fields.split():
            field_name, _, remaining = each.partition("=")
            kind, _, number = remaining.partition(":")
            repeated, kind = kind.startswith("*"), kind.lstrip("*")
            field = message.field.add(
                name=field_name,
                number=int(number),
                label=field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL,
            )
            if kind[0].isupper():
                field.type = field_type.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(field_type, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        each.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{_PACKAGE}.{each.name}")
        )
        for each in file.message_type
    }


_TYPES = _message_types()


@dataclass(frozen=True, slots=True)
class Method:
    """A call of etcd's API.

    Attributes:
        path: Its path.
        reply: The type of its reply.
    """

    path: str
    reply: Any


def _method(path: str, reply: str) -> Method:
    return Method(f"/etcdserverpb.{path}", _TYPES[reply])


TXN = _method("KV/Txn", "TxnReply")
RANGE = _method("KV/Range", "RangeReply")
LEASE_GRANT = _method("Lease/LeaseGrant", "LeaseGrantReply")
LEASE_REVOKE = _method("Lease/LeaseRevoke", "LeaseReply")
#: A stream; with one question in it, it is as good as a plain call.
LEASE_RENEW = _method("Lease/LeaseKeepAlive", "LeaseReply")
LEASE_LOOK = _method("Lease/LeaseTimeToLive", "LeaseReply")
AUTHENTICATE = _method("Auth/Authenticate", "AuthenticateReply")
STATUS = _method("Maintenance/Status", "StatusReply")
WATCH = _method("Watch/Watch", "WatchReply")


def after_prefix(prefix: bytes) -> bytes:
    """Return the end of the range of all keys with a prefix; its last byte is no 0xff."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def created(key: bytes, revision: int, *, prefix: bool = False) -> Message:
    """Return the condition that a key was created at a revision; 0: that it does not exist.

    Args:
        key: The key.
        revision: Its create revision.
        prefix: All keys with this prefix.
    """
    condition = _TYPES["Compare"](
        result=_EQUAL, target=_BY_CREATION, key=key, create_revision=revision
    )
    if prefix:
        condition.range_end = after_prefix(key)
    return condition


def none_in(first: bytes, end: bytes) -> Message:
    """Return the condition that there is no key in a range."""
    return _TYPES["Compare"](
        result=_EQUAL, target=_BY_CREATION, key=first, create_revision=0, range_end=end
    )


def exists(key: bytes) -> Message:
    """Return the condition that a key exists."""
    return _TYPES["Compare"](result=_NOT_EQUAL, target=_BY_CREATION, key=key, create_revision=0)


def changed(key: bytes, revision: int) -> Message:
    """Return the condition that a key was last written at a revision."""
    return _TYPES["Compare"](result=_EQUAL, target=_BY_CHANGE, key=key, mod_revision=revision)


def has_value(key: bytes, value: bytes) -> Message:
    """Return the condition that a key has a value."""
    return _TYPES["Compare"](result=_EQUAL, target=_BY_VALUE, key=key, value=value)


def get(key: bytes) -> Message:
    """Return the operation that reads a key."""
    return _TYPES["Operation"](range=_TYPES["Range"](key=key))


def all_of(prefix: bytes) -> Message:
    """Return the operation that reads all keys of a prefix, in the order of their creation."""
    return _TYPES["Operation"](range=in_order(prefix))


def oldest(prefix: bytes) -> Message:
    """Return the operation that reads the key of a prefix that was created first."""
    return _TYPES["Operation"](range=in_order(prefix, limit=1))


def newest(prefix: bytes, before: int = 0) -> Message:
    """Return the operation that reads the key of a prefix that was created last.

    Args:
        prefix: The prefix.
        before: Only keys that were created before this revision; 0 for all.
    """
    return _TYPES["Operation"](range=last_created(prefix, before, limit=1))


def last_created(prefix: bytes, before: int, limit: int, at: int = 0) -> Message:
    """Return the request for the keys of a prefix that were created last, the last one first.

    Args:
        prefix: The prefix.
        before: Only keys that were created before this revision; 0 for all.
        limit: How many.
        at: The state of this revision; 0: the present one.
    """
    found = in_order(prefix, limit)
    found.sort_order = _DESCENDING
    if before:
        found.max_create_revision = before - 1
    if at:
        found.revision = at
    return found


def in_order(prefix: bytes, limit: int = 0) -> Message:
    """Return the request for the keys of a prefix in the order of their creation."""
    return _TYPES["Range"](
        key=prefix,
        range_end=after_prefix(prefix),
        limit=limit,
        sort_order=_ASCENDING,
        sort_target=_CREATION,
    )


def put(key: bytes, value: bytes, lease: int) -> Message:
    """Return the operation that writes a key under a lease."""
    return _TYPES["Operation"](put=_TYPES["Put"](key=key, value=value, lease=lease))


def move(key: bytes, lease: int) -> Message:
    """Return the operation that puts a key that exists under another lease."""
    return _TYPES["Operation"](put=_TYPES["Put"](key=key, lease=lease, ignore_value=True))


def rewrite(key: bytes, value: bytes) -> Message:
    """Return the operation that writes a key that exists, and leaves it under its lease."""
    return _TYPES["Operation"](put=_TYPES["Put"](key=key, value=value, ignore_lease=True))


def delete(key: bytes) -> Message:
    """Return the operation that deletes a key."""
    return _TYPES["Operation"](delete=_TYPES["Delete"](key=key))


def delete_all(prefix: bytes) -> Message:
    """Return the operation that deletes all keys of a prefix."""
    return _TYPES["Operation"](delete=_TYPES["Delete"](key=prefix, range_end=after_prefix(prefix)))


def nested(conditions: Sequence[Message], success: Sequence[Message]) -> Message:
    """Return the operation that does what is in `success` if all conditions are true.

    They are about what there was before the transaction that it is a part of.
    """
    return _TYPES["Operation"](txn=txn(conditions, success))


def txn(
    conditions: Sequence[Message],
    success: Sequence[Message],
    failure: Sequence[Message] = (),
) -> Message:
    """Return a transaction: the operations of `success` if all conditions are true."""
    return _TYPES["Txn"](compare=conditions, success=success, failure=failure)


def lease_grant(seconds: int) -> Message:
    """Return the request for a lease."""
    return _TYPES["LeaseGrant"](seconds=seconds)


def lease(number: int) -> Message:
    """Return the request that names a lease."""
    return _TYPES["Lease"](id=number)


def authenticate(name: str, password: str) -> Message:
    """Return the request for a token."""
    return _TYPES["Authenticate"](name=name, password=password)


def status() -> Message:
    """Return the request for a member's status."""
    return _TYPES["Status"]()


def watch_deletion(number: int, key: bytes, revision: int) -> Message:
    """Return the request to watch a key from a revision on, except for puts."""
    return _TYPES["Watch"](
        create=_TYPES["WatchCreate"](
            key=key, start_revision=revision, filters=[NO_PUTS], watch_id=number
        )
    )


def watch_changes(number: int, key: bytes, revision: int) -> Message:
    """Return the request to watch a key from a revision on."""
    return _TYPES["Watch"](
        create=_TYPES["WatchCreate"](key=key, start_revision=revision, watch_id=number)
    )


def watch_inside(number: int, prefix: bytes, revision: int) -> Message:
    """Return the request to watch all keys with a prefix from a revision on."""
    request = watch_changes(number, prefix, revision)
    request.create.range_end = after_prefix(prefix)
    return request


def cancel_watch(number: int) -> Message:
    """Return the request to end a watch."""
    return _TYPES["Watch"](cancel=_TYPES["WatchCancel"](watch_id=number))


def serialized(request: Message) -> bytes:
    """Return the bytes of a request."""
    data: bytes = request.SerializeToString()
    return data


def first_entry(reply: Message, index: int) -> Message | None:
    """Return the first key that an operation of a transaction read, if there is one."""
    found = reply.responses[index].range.kvs
    return found[0] if found else None
