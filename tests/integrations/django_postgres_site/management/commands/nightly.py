"""A command that does not overlap with itself, on any host."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction


class Command(BaseCommand):
    """Add one to the number once there is a line of input, unless another process is about to."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it."""
        lease = settings.LOCKS.get_lock("nightly").try_acquire(max_hold=3600)
        if lease is None:
            raise CommandError("it runs already")
        with lease:
            self.stdout.write("started")
            self.stdout.flush()
            sys.stdin.readline()
            with transaction.atomic(), connection.cursor() as cursor:
                lease.guard(connection)
                cursor.execute("UPDATE site SET number = number + 1")
