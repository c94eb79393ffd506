"""Sabotages of what URLs, clients and configuration files mean."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_REFUSALS = "tests/unit/test_config_refusals.py::test_what_is_refused"
_FORMATS = "tests/unit/test_config_formats.py::test_what_is_refused"

SERVERS = (
    Mutant(
        "the user of the first server is part of the password",
        "a URL with a user for each server is refused",
        "redisson_py/_redis/url.py",
        'if "@" in user and "," in user:',
        "if False:",
        ("tests/unit/test_url_topologies.py::test_what_is_refused",),
    ),
    Mutant(
        "sentinels get the password of the servers",
        "sentinels have users of their own",
        "redisson_py/_redis/url.py",
        "        settings.pop(name, None)\n",
        "",
        ("tests/unit/test_url_topologies.py::test_sentinels_have_users_of_their_own",),
    ),
    Mutant(
        "a client that reads from replicas makes ours do so",
        "redis-py's own function is not run on our connections",
        "redisson_py/_redis/redis_py.py",
        'if name != "redis_connect_func"',
        "if name",
        (
            "tests/unit/test_servers_from_client.py::test_reading_from_replicas_is_not_taken_from_a_cluster_client",
        ),
    ),
    Mutant(
        "what asks replicas is taken for a master",
        "slave_for is refused",
        "redisson_py/_redis/redis_py.py",
        "if not pool.is_master:",
        "if False:",
        ("tests/unit/test_servers_from_client.py::test_what_is_refused",),
    ),
    Mutant(
        "a part of a password is told as the name of a variable",
        "no error tells a value of a file",
        "redisson_py/_redis/config/file.py",
        'return whole or not ("password" in where.lower() or "@" in text)',
        "return True",
        (_FORMATS,),
    ),
    Mutant(
        "what is twice in a JSON file counts once",
        "duplicate keys are refused",
        "redisson_py/_redis/config/file.py",
        "return _Wrong(_twice(twice[0])) if twice else found",
        "return found",
        (_FORMATS,),
    ),
    Mutant(
        "TLS is checked as little as Java is told to",
        "sslVerificationMode must be STRICT",
        "redisson_py/_redis/config/read.py",
        'if unchecked not in (None, "STRICT"):',
        "if False:",
        (_REFUSALS,),
    ),
    Mutant(
        "two sections are taken for one",
        "exactly one section is needed",
        "redisson_py/_redis/config/read.py",
        "if len(found) != 1:",
        "if not found:",
        (_REFUSALS,),
    ),
    Mutant(
        "what a script of Redis 6.2 returns as refused is about a key",
        "renewals that a server refuses cost one script a batch",
        "redisson_py/_redis/error_replies.py",
        'return text if bare is None else "ERR " + text[bare.end() :]',
        "return text",
        ("tests/unit/test_error_replies.py",),
    ),
)
