"""`python -m redisson_py` and the console script `redisson-py`: starts `redisson_py._cli`."""

import sys


def main() -> None:
    """Run the command line; without what it needs, say how to install it."""
    try:
        from redisson_py._cli.main import cli

        # It imports the command.
        cli(prog_name="redisson-py")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("click", "rich"):
            raise
        sys.stderr.write(
            f"redisson-py: {error.name} is not installed; the command line needs"
            " pip install 'redisson-py[cli]'\n"
        )
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
