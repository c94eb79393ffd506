"""Migrations at the start of each of several hosts: one does them, the others wait."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """`migrate`, one process at a time."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it when the others have."""
        with settings.REDISSON.get_lock("migrations").hold(timeout=100):
            call_command("migrate", verbosity=0)
