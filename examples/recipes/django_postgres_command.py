"""Django on PostgreSQL alone: a management command that must not overlap with itself."""

# pip install './redisson_py[postgres]' django 'psycopg[binary]'

import os
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.db import connection, transaction

from redisson_py.sync.postgres import Postgres

URL = urlsplit(os.environ.get("DATABASE_URL", "postgresql://localhost/app"))
ENGINE, WHERE = "django.db.backends.postgresql", {"HOST": URL.hostname, "PORT": URL.port}
DATABASE = {"ENGINE": ENGINE, "NAME": URL.path[1:], "USER": URL.username, **WHERE}
settings.configure(DATABASES={"default": DATABASE}, LOCKS=Postgres.from_url(URL.geturl()))


class Command(BaseCommand):
    """`manage.py nightly`: works unless another process does, on any host."""

    def handle(self, *args: object, **options: object) -> None:  # noqa: D102
        lease = settings.LOCKS.get_lock("nightly").try_acquire(max_hold=3600)
        if lease is None:
            raise CommandError("it runs already")
        with lease:
            lease.check()  # before each step of long work; it costs nothing
            with transaction.atomic(), connection.cursor() as cursor:
                lease.guard(connection)  # from here to the commit nobody else gets the lock
                cursor.execute("SELECT 'done'")  # stands for what it writes
                self.stdout.write(cursor.fetchone()[0])


if __name__ == "__main__":
    django.setup()
    with settings.LOCKS, Postgres.from_url(URL.geturl()) as other_host:
        with other_host.get_lock("nightly"):
            try:
                call_command(Command())
            except CommandError as error:
                print(error)
        call_command(Command())
    connection.close()
