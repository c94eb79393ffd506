"""The site for servers of WSGI."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.integrations.django_postgres_site.settings")
application = get_wsgi_application()
