"""What clients sent before there was a client queue, as it was then: they run beside newer ones."""

from __future__ import annotations

from redisson_py._stores.mysql import sql

_NOW = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
_IS_FREE = f"expires <= {_NOW} AND COALESCE(LOCATE({{entry}}, refused), 0) = 0"
_ASK = f"""\
INSERT INTO redisson_py_locks (id, name, owner, token, last_token, expires)
VALUES ({{id}}, {{name}}, {{owner}}, {_NOW}, {_NOW} + {{more}}, {_NOW} + {{lease}})
ON DUPLICATE KEY UPDATE
  token = IF({_IS_FREE}, GREATEST(last_token + 1, {_NOW}), token),
  last_token = IF({_IS_FREE}, GREATEST(last_token + 1, {_NOW}) + {{more}}, last_token),
  owner = IF({_IS_FREE}, {{owner}}, owner),
  expires = IF({_IS_FREE}, {_NOW} + {{lease}}, expires),
  refused = IF(refused_until > {_NOW}, refused, NULL);
SELECT owner <=> {{owner}}, expires - {_NOW}, token, last_token - token + 1
FROM redisson_py_locks WHERE id = {{id}}"""

_GIVE_BACK = f"""\
UPDATE redisson_py_locks
SET owner = NULL, expires = 0, released = LEFT(CONCAT({{gone}}, released), 1024)
WHERE id = {{id}} AND owner = {{owner}} AND expires > {_NOW}"""

_GIVE_BACK_UNSURE = f"""\
INSERT INTO redisson_py_locks (id, name, owner, token, last_token, expires, refused, refused_until)
VALUES ({{id}}, {{name}}, NULL, 0, 0, 0, {{entry}}, {_NOW} + 60000000)
ON DUPLICATE KEY UPDATE
  refused = RIGHT(CONCAT(IF(refused_until > {_NOW}, COALESCE(refused, ''), ''), {{entry}}), 65535),
  refused_until = {_NOW} + 60000000,
  released = IF(owner <=> {{owner}} AND expires > {_NOW},
    LEFT(CONCAT({{gone}}, released), 1024), released),
  expires = IF(owner <=> {{owner}}, 0, expires),
  owner = NULLIF(owner, {{owner}});
SELECT LOCATE({{entry}}, released) > 0 FROM redisson_py_locks WHERE id = {{id}}"""


def ask(name: str, owner: str, lease: float = 30.0) -> str:
    """Return the query for a hold: its rows tell whether this owner has it, and what is left."""
    return _filled(_ASK, name, owner).format(lease=round(lease * 1_000_000), more=0)


def give_back(name: str, owner: str) -> str:
    """Return the statement that ends a hold."""
    return _filled(_GIVE_BACK, name, owner)


def give_back_unsure(name: str, owner: str) -> str:
    """Return the query that ends a hold, if there is one, and refuses what comes late."""
    return _filled(_GIVE_BACK_UNSURE, name, owner)


def _filled(statement: str, name: str, owner: str) -> str:
    parts = {"id": sql.key(name), "name": f"x'{name.encode().hex()}'"}
    texts = {"owner": owner, "entry": f" {owner} ", "gone": f" {owner}"}
    for part, text in texts.items():
        parts[part] = f"_ascii x'{text.encode().hex()}'"
    for part, text in parts.items():
        statement = statement.replace(f"{{{part}}}", text)
    return statement
