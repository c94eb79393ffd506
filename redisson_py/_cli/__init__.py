"""The command line: `main` has the group, `commands` a module for each command."""
