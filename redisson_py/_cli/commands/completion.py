"""`redisson-py completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell script that completes commands and options.

    \b
    bash   echo 'eval "$(redisson-py completion bash)"' >> ~/.bashrc
    zsh    echo 'eval "$(redisson-py completion zsh)"' >> ~/.zshrc
    fish   redisson-py completion fish > ~/.config/fish/completions/redisson-py.fish
    """  # noqa: D301  # click's mark of lines that are not to be wrapped
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root()
    script = kind(root.command, {}, "redisson-py", "_REDISSON_PY_COMPLETE")
    click.echo(script.source())
