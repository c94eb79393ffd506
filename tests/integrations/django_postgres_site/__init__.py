"""A Django site on PostgreSQL alone: its rows and its locks, and each request in a transaction."""
