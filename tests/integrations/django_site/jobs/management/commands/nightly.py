"""A command that must not overlap with itself."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """Work until a file `go` is there."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, unless somebody does."""
        lease = settings.REDISSON.get_lock("nightly").try_acquire()
        if lease is None:
            raise CommandError("it runs already")
        with lease:
            self.stdout.write("works")
            self.stdout.flush()
            while not (settings.FOLDER / "go").exists():
                lease.check()
                time.sleep(0.01)
        self.stdout.write("done")
