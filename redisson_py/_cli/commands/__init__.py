"""A module for each command, named after it; `redisson_py._cli.main` puts them together."""
