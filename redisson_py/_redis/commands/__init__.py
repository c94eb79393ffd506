"""The scripts as Python sees them: keys and arguments in, typed replies out. No I/O, no state."""
