"""A migration that does what must not be done twice."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.db import migrations


def note(apps: Any, editor: Any) -> None:
    """Write down that it runs; slowly enough for others to come."""
    with (settings.FOLDER / "migrated").open("a") as file:
        file.write("once\n")
        file.flush()
        time.sleep(0.5)


class Migration(migrations.Migration):  # type: ignore[misc]  # Django has no types
    """Outside of a transaction, as long ones are."""

    initial = True
    atomic = False
    operations = (migrations.RunPython(note, migrations.RunPython.noop),)
