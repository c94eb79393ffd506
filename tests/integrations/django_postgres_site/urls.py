"""Views that read a number, think, and write one more; their transactions end behind them."""

from __future__ import annotations

import time

from django.conf import settings
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path


def _add_one() -> JsonResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT number FROM site")
        (before,) = cursor.fetchone()
        time.sleep(0.002)
        cursor.execute("UPDATE site SET number = %s", [before + 1])
    return JsonResponse({"number": before + 1})


def add(request: HttpRequest) -> JsonResponse:
    """Add one: the lock is released before the commit, but the guard lasts until then."""
    with settings.LOCKS.get_lock("number") as lease:
        lease.guard(connection)
        response = _add_one()
    # It renders a template.
    time.sleep(0.02)
    return response


@transaction.non_atomic_requests
def add_inside(request: HttpRequest) -> JsonResponse:
    """Add one in a transaction of its own, which ends inside the lock."""
    with settings.LOCKS.get_lock("number") as lease, transaction.atomic():
        lease.guard(connection)
        return _add_one()


@transaction.non_atomic_requests
def add_wrongly(request: HttpRequest) -> JsonResponse:
    """Guard no transaction."""
    with settings.LOCKS.get_lock("number") as lease:
        try:
            lease.guard(connection)
        except RuntimeError as error:
            return JsonResponse({"error": str(error)})
    raise AssertionError("it guarded nothing")


def fail(request: HttpRequest) -> JsonResponse:
    """Write, and have it rolled back."""
    with settings.LOCKS.get_lock("number") as lease:
        lease.guard(connection)
        _add_one()
        raise KeyError("of the view")


urlpatterns = [
    path("add", add),
    path("add_inside", add_inside),
    path("add_wrongly", add_wrongly),
    path("fail", fail),
]
