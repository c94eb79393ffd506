"""Django: a management command that must not overlap with itself, on any host."""

# pip install ./redisson_py django

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import django
from django.conf import settings
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand

from redisson_py.sync import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
settings.configure(REDISSON=Redisson.from_url(URL))  # that is settings.py
started, may_end = Event(), Event()


class Command(BaseCommand):
    """`manage.py nightly`: works unless another host does."""

    def handle(self, *args: object, **options: object) -> None:  # noqa: D102
        lease = settings.REDISSON.get_lock("nightly").try_acquire(max_hold=3600)
        if lease is None:
            raise CommandError("it runs already")
        with lease:
            started.set()
            while not may_end.wait(0.1):
                lease.check()  # a thread cannot be interrupted: it asks before each step


if __name__ == "__main__":
    django.setup()
    with settings.REDISSON, ThreadPoolExecutor() as hosts:
        first = hosts.submit(call_command, Command())
        started.wait()
        print(f"second host: {hosts.submit(call_command, Command()).exception()}")
        may_end.set()
        print(f"first host: {first.result() or 'done'}")
