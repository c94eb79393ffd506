"""An app with two commands and a migration."""
