"""Django on PostgreSQL alone: with ATOMIC_REQUESTS a view's lock ends before its transaction."""

# pip install './redisson_py[postgres]' django 'psycopg[binary]'

import os
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from redisson_py.sync.postgres import Postgres

URL = urlsplit(os.environ.get("DATABASE_URL", "postgresql://localhost/app"))
DATABASE = {"ENGINE": "django.db.backends.postgresql", "ATOMIC_REQUESTS": True}
DATABASE |= {"NAME": URL.path[1:], "USER": URL.username, "HOST": URL.hostname, "PORT": URL.port}
LOCKS = Postgres.from_url(URL.geturl())
settings.configure(DATABASES={"default": DATABASE}, LOCKS=LOCKS, ROOT_URLCONF=__name__)


def book(request: HttpRequest) -> HttpResponse:
    """Book 10 cents. Django commits behind the view; the guard lasts until then."""
    with settings.LOCKS.get_lock("account:a") as lease, connection.cursor() as cursor:
        lease.guard(connection)
        cursor.execute("SELECT cents FROM recipe_account")
        cursor.execute("UPDATE recipe_account SET cents = %s", [cursor.fetchone()[0] + 10])
    return HttpResponse("booked")


def request(number: int) -> int:
    """Stand for a process of the site; return the status of its answer."""
    status: int = Client().get("/book").status_code
    connection.close()
    return status


urlpatterns = [path("book", book)]
if __name__ == "__main__":
    django.setup()
    with settings.LOCKS, connection.cursor() as cursor, ThreadPoolExecutor(4) as processes:
        cursor.execute("CREATE TABLE recipe_account AS SELECT 100 AS cents")
        print("answers:", {*processes.map(request, range(20))})
        cursor.execute("SELECT cents FROM recipe_account")
        print("balance:", cursor.fetchone()[0])
        cursor.execute("DROP TABLE recipe_account")
    connection.close()
