"""Settings: SITE_DATABASE is the URL of the database."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from redisson_py.sync.postgres import Postgres

_URL = os.environ["SITE_DATABASE"]
_WHERE = urlsplit(_URL)

LOCKS = Postgres.from_url(_URL, lease_time=20)
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _WHERE.path[1:],
        "USER": _WHERE.username,
        "HOST": _WHERE.hostname,
        "PORT": _WHERE.port,
        "ATOMIC_REQUESTS": True,
    }
}
INSTALLED_APPS = ["tests.integrations.django_postgres_site"]
SECRET_KEY = "of a test"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "tests.integrations.django_postgres_site.urls"
