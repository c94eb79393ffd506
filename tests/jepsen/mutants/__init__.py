"""Sabotages of the package, each of which a named checker must catch within a named time."""
