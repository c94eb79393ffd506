"""What each error reply of Redis and Valkey means: one table, and the only place that reads them.

The table has what Redis 6.2 to 8 and Valkey 7.2 to 9 answer to a client: to its commands, inside
its scripts, and in place of a greeting. `source` names the place in their source that says so: a
file of redis/redis, which valkey-io/valkey has under the same name, and the function or variable.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class Meaning(Enum):
    """What an error reply is about, and so what helps."""

    #: This call is wrong, or its user, whatever its keys are. Final.
    CALL = "call"
    #: This call is wrong because of one of its keys or its data: others may be served. Final.
    KEY = "key"
    #: The whole server refuses for now: nothing was executed; ask again.
    LATER = "later"
    #: The server has no memory. An operator must act, so whoever wants more is refused for good;
    #: what gives something back is asked again.
    FULL = "full"
    #: This node is the wrong one, for now or for good: ask again, once the right one is known.
    ELSEWHERE = "elsewhere"
    #: Another node has the key, and the reply names it. Final where there is no cluster.
    REDIRECT = "redirect"
    #: Some keys of the slot may be elsewhere already: ask again.
    MOVING = "moving"
    #: The script has to be loaded.
    NO_SCRIPT = "no script"


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        code: The first word of the reply.
        words: A part of the text behind it that tells it from others of the same code.
        meaning: What it means.
        source: Where the servers' source says it.
    """

    code: str
    words: str
    meaning: Meaning
    source: str


#: The first row that fits counts. A reply that is not here is about its call: see `meaning_of`.
TABLE = (
    # The whole server, for now.
    Row("LOADING", "", Meaning.LATER, "server.c: shared.loadingerr"),
    Row("BUSY", "", Meaning.LATER, "server.c: shared.slowscripterr, slowevalerr, slowmoduleerr"),
    Row("MISCONF", "", Meaning.LATER, "server.c: writeCommandsGetDiskErrorMessage"),
    Row("NOREPLICAS", "", Meaning.LATER, "server.c: shared.noreplicaserr"),
    Row("ERR", "max number of clients", Meaning.LATER, "networking.c: acceptCommonHandler"),
    Row("OOM", "", Meaning.FULL, "server.c: shared.oomerr; script.c: scriptPrepareForRun"),
    # The wrong node.
    Row("READONLY", "", Meaning.ELSEWHERE, "server.c: shared.roslaveerr; script.c"),
    Row("MASTERDOWN", "", Meaning.ELSEWHERE, "server.c: shared.masterdownerr"),
    Row("CLUSTERDOWN", "", Meaning.ELSEWHERE, "cluster.c: clusterRedirectClient"),
    Row("UNBLOCKED", "", Meaning.ELSEWHERE, "blocked.c: disconnectOrRedirectAllBlockedClients"),
    Row("ERR", "replica instances", Meaning.ELSEWHERE, "replication.c: waitCommand"),
    Row("MOVED", "", Meaning.REDIRECT, "cluster.c: clusterRedirectClient"),
    Row("ASK", "", Meaning.REDIRECT, "cluster.c: clusterRedirectClient"),
    Row("REDIRECT", "", Meaning.REDIRECT, "server.c of Valkey 8: processCommand, CLIENT CAPA"),
    Row("TRYAGAIN", "", Meaning.MOVING, "cluster.c: clusterRedirectClient"),
    Row("ERR", "non local key ", Meaning.MOVING, "script.c: scriptVerifyClusterState"),
    # What the user may do. "No permissions to access a key", and before 7.0 "... one of the keys".
    Row("NOPERM", " key", Meaning.KEY, "acl.c: getAclErrorMessage; server.c 6.2: processCommand"),
    Row("NOPERM", "", Meaning.CALL, "acl.c: getAclErrorMessage"),
    Row("ERR", "access a key", Meaning.KEY, "script.c: scriptVerifyACL"),
    Row("ERR", "ACL failure in script", Meaning.CALL, "script.c: scriptVerifyACL"),
    Row("ERR", "executing the script can't access", Meaning.KEY, "scripting.c of 6.2"),
    Row("ERR", "The user executing the script", Meaning.CALL, "scripting.c of 6.2"),
    Row("NOAUTH", "", Meaning.CALL, "server.c: shared.noautherr"),
    Row("WRONGPASS", "", Meaning.CALL, "acl.c: authCommand"),
    Row("DENIED", "", Meaning.CALL, "networking.c: clientAcceptHandler, protected mode"),
    # The call.
    Row("NOSCRIPT", "", Meaning.NO_SCRIPT, "server.c: shared.noscripterr"),
    Row("NOPROTO", "", Meaning.CALL, "networking.c: helloCommand"),
    Row("CROSSSLOT", "", Meaning.CALL, "cluster.c: clusterRedirectClient"),
    Row("EXECABORT", "", Meaning.CALL, "server.c: shared.execaborterr"),
    Row("ERR", "unknown command", Meaning.CALL, "server.c: commandCheckExistence"),
    Row("ERR", "unknown subcommand", Meaning.CALL, "server.c: commandCheckExistence"),
    Row("ERR", "wrong number of arguments", Meaning.CALL, "server.c: commandCheckArity"),
    Row("WRONGTYPE", "", Meaning.KEY, "server.c: shared.wrongtypeerr"),
)

#: How Redis 6.2 wraps the error of a command that a script called, and if the script returns it.
_IN_SCRIPT = re.compile(r"(?:ERR Error running script .*|@user_script: \d+): -(?=[A-Z]+ )")

#: The same of an error without a code, which a script returns; if it is raised, ERR is the code.
_WITHOUT_CODE = re.compile(r"@user_script: \d+: (?=[A-Z][a-z])")

#: A command that the server does not have: asked for by a client, or by a script.
_MISSING = re.compile(
    r"unknown command ['`](\w+)|Unknown \w* ?command called from script|\.acl_check_cmd\(\)"
)

#: What a user may not do: by a command, in a script, and in a script of 6.2.
_FORBIDDEN = re.compile(
    r"NOPERM |ACL failure in script|access a key|"
    r"The user executing the script|executing the script can't access"
)

_REPEATED = frozenset({Meaning.LATER, Meaning.ELSEWHERE, Meaning.MOVING})


def unwrapped(text: str) -> str:
    """Return an error reply as it was said to a script, if one passed it on."""
    if (wrapped := _IN_SCRIPT.match(text)) is not None:
        return text[wrapped.end() :]
    bare = _WITHOUT_CODE.match(text)
    return text if bare is None else "ERR " + text[bare.end() :]


def meaning_of(text: str) -> Meaning:
    """Return what an error reply means; one that nobody knows may be about one of its keys."""
    code, _, words = unwrapped(text).partition(" ")
    for row in TABLE:
        if row.code == code and row.words in words:
            return row.meaning
    return Meaning.KEY


def missing_command(text: str) -> str | None:
    """Return the command that the server does not have; empty if it does not say which."""
    found = _MISSING.search(text)
    return found and (found.group(1) or "")


def is_forbidden(text: str) -> bool:
    """Return whether an error reply is about the permissions of the user."""
    return _FORBIDDEN.search(text) is not None


def is_try_again(text: str) -> bool:
    """Return whether an error reply means "not executed, ask again"."""
    return meaning_of(text) in _REPEATED


def is_moving(text: str) -> bool:
    """Return whether an error reply says that some keys of a call may be elsewhere already."""
    return meaning_of(text) is Meaning.MOVING or text.startswith("ASK ")


def waits_for_map(text: str) -> bool:
    """Return whether an error reply holds until the map changes, or a key follows the others."""
    means = meaning_of(text)
    return means in (Meaning.MOVING, Meaning.REDIRECT) or text.startswith("CLUSTERDOWN Hash slot")


def is_half_done(text: str) -> bool:
    """Return whether an error reply may have ended a script after it had changed something."""
    return "non local key " in text
