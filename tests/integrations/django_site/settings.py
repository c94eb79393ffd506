"""Settings: SITE_FOLDER has what the site writes; SITE_REDIS names the server."""

from __future__ import annotations

import os
from pathlib import Path

from redisson_py.sync import Redisson

FOLDER = Path(os.environ["SITE_FOLDER"])
REDISSON = Redisson.from_url(os.environ["SITE_REDIS"], lease_time=20)

SECRET_KEY = "of a test"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "tests.integrations.django_site.urls"
