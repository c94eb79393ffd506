"""Two views that take turns: one for threads, one for an event loop."""

from __future__ import annotations

import asyncio
import os
import time

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.urls import path

from redisson_py import Redisson

NUMBER = settings.FOLDER / "number"
#: For async views; a client belongs to one event loop, so not that of the settings.
client = Redisson.from_url(os.environ["SITE_REDIS"])


def add(request: HttpRequest) -> JsonResponse:
    """Add one to a number in a file; under WSGI, and in threads under ASGI."""
    with settings.REDISSON.get_lock("number"):
        before = int(NUMBER.read_text())
        time.sleep(0.002)
        NUMBER.write_text(str(before + 1))
    return JsonResponse({"pid": os.getpid()})


async def add_async(request: HttpRequest) -> JsonResponse:
    """Do the same in an event loop."""
    async with client.get_lock("number"):
        before = int(NUMBER.read_text())
        await asyncio.sleep(0.002)
        NUMBER.write_text(str(before + 1))
    return JsonResponse({"pid": os.getpid()})


async def add_wrongly(request: HttpRequest) -> JsonResponse:
    """Block the event loop, or be told not to."""
    try:
        settings.REDISSON.get_lock("number").acquire()
    except RuntimeError as error:
        return JsonResponse({"error": str(error)})
    raise AssertionError("the event loop was blocked")


urlpatterns = [
    path("add", add),
    path("add_async", add_async),
    path("add_wrongly", add_wrongly),
]
