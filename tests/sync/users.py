"""The connections that threads have, of drivers and frameworks, in transactions of a user's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import psycopg2
import sqlalchemy.orm


class User(ABC):
    """A user's connection.

    Attributes:
        connection: What `guard` and `complete` take.
        errors: What its driver raises.
    """

    connection: Any
    errors: type[Exception]

    @abstractmethod
    def transaction(self) -> AbstractContextManager[object]:
        """Begin a transaction for the time of a block."""

    def execute(self, statement: str) -> None:
        """Carry a statement out."""
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(statement)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Psycopg(User):
    """psycopg 3 in autocommit, and rows that are no tuples."""

    errors: type[Exception] = psycopg.Error

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True, row_factory=psycopg.rows.dict_row)

    def transaction(self) -> AbstractContextManager[object]:
        made: AbstractContextManager[object] = self.connection.transaction()
        return made


class Implicit(Psycopg):
    """psycopg 3 whose first statement begins a transaction."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url)


class Psycopg2(User):
    """psycopg2, whose block of a connection is a transaction."""

    errors = psycopg2.Error

    def __init__(self, url: str) -> None:
        self.connection = psycopg2.connect(url)

    def transaction(self) -> AbstractContextManager[object]:
        made: AbstractContextManager[object] = self.connection
        return made


class SQLAlchemy(User):
    """The driver's connection that a session of SQLAlchemy has, in the transaction of that."""

    def __init__(self, url: str) -> None:
        self.errors = psycopg.Error
        self._engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        self._session: Any = None

    @property
    def connection(self) -> Any:
        return self._session.connection().connection

    @contextmanager
    def transaction(self) -> Iterator[object]:
        with sqlalchemy.orm.Session(self._engine) as self._session, self._session.begin():
            yield self._session

    def close(self) -> None:
        self._engine.dispose()


class Django(User):
    """A connection of Django, as `django.db.connection` is one."""

    def __init__(self, url: str) -> None:
        import django
        from django.conf import settings
        from django.db import Error, connections, transaction

        if not settings.configured:
            settings.configure(LOGGING_CONFIG=None)
            django.setup()
        where = urlsplit(url)
        connections.settings["guarding"] = connections.configure_settings(
            {
                "default": {
                    "ENGINE": "django.db.backends.postgresql",
                    "NAME": where.path[1:],
                    "USER": where.username,
                    "HOST": where.hostname,
                    "PORT": where.port,
                }
            }
        )["default"]
        self.errors = Error
        self._atomic = transaction.atomic
        self._connections = connections
        self.connection = connections["guarding"]

    def transaction(self) -> AbstractContextManager[object]:
        made: AbstractContextManager[object] = self._atomic(using="guarding")
        return made

    def close(self) -> None:
        super().close()
        del self._connections["guarding"], self._connections.settings["guarding"]


USERS: dict[str, Callable[[str], User]] = {
    "psycopg": Psycopg,
    "implicit": Implicit,
    "psycopg2": Psycopg2,
    "sqlalchemy": SQLAlchemy,
    "django": Django,
}
