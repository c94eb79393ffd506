"""The site for servers of ASGI."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.integrations.django_site.settings")
application = get_asgi_application()
