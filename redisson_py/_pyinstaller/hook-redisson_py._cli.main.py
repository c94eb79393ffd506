"""What the command line imports by name: its commands."""

from redisson_py._cli.main import _COMMANDS

hiddenimports = [f"redisson_py._cli.commands.{name}" for name in _COMMANDS]
