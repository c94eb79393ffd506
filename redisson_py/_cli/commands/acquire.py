"""`redisson-py acquire`: a lock for a job that starts later."""

from __future__ import annotations

import click

from redisson_py import RedissonOptions
from redisson_py._cli.seconds import Seconds
from redisson_py._cli.servers import Servers, servers_options
from redisson_py._cli.status import answer, asynchronous, json_option


@click.command(short_help="Take a lock for a job that starts later.")
@click.argument("name")
@click.option(
    "--timeout",
    type=Seconds(),
    help="Wait at most this long for the lock; 0 tries once. Without it, wait until it is free.",
)
@click.option("--nonblock", "-n", is_flag=True, help="Do not wait: the same as --timeout 0.")
@click.option(
    "--lease",
    type=Seconds(positive=True),
    help="How long the job may take to start; then the lock is free.  [default: 30, or what"
    " --config says]",
)
@click.option(
    "--fair", is_flag=True, help="Grant the lock in the order of arrival, across processes."
)
@click.option("--fenced", is_flag=True, help="Take a fenced lock: the job gets its token.")
@servers_options
@json_option
@asynchronous
async def acquire(
    *,
    name: str,
    timeout: float | None,
    nonblock: bool,
    lease: float | None,
    fair: bool,
    fenced: bool,
    servers: Servers,
    as_json: bool,
) -> None:
    """Acquire the lock NAME for a job that starts later, and print a token for the job.

    \b
    export REDISSON_PY_ADOPT="$(redisson-py acquire table --lease 3600 -n)" &&
    sbatch --export=ALL job.sh      # in it: redisson-py run table --adopt -- ./work

    From now on NAME is taken for --lease seconds. The first that adopts it, with run --adopt or
    with client.adopt(token) in Python, goes on with the same hold and renews it; a second one is
    refused. If nobody does, NAME becomes free. Who has the token can take the lock: keep it out
    of logs and arguments. Nothing but the end of its time, or release --force, takes it back.

    Exit status: 0 if it was acquired; 69 if Redis did not answer or refused; 75 if it is busy.
    """  # noqa: D301  # click's mark of lines that are not to be wrapped
    if fair and fenced:
        raise click.UsageError("--fair and --fenced cannot be combined")
    if nonblock and timeout:
        raise click.UsageError("--nonblock and --timeout cannot be combined")
    client = servers.client(**RedissonOptions())
    make = client.get_fair_lock if fair else client.get_fenced_lock if fenced else client.get_lock
    try:
        lock = make(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    async with client:
        taken = await lock.acquire(timeout=0.0 if nonblock else timeout)
        token = await taken.hand_over(lease_time=lease)
    if as_json:
        answer({"name": name, "token": token, "fencing_token": taken.token})
    else:
        click.echo(token)
