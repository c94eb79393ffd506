"""A Django site with a client in its settings, as docs/sync.md has it."""
