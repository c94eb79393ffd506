r"""A small web service whose answers tell busy from broken, on the worst day too.

    pip install ./redisson_py fastapi uvicorn gunicorn uvicorn-worker
    REDISSON_URL=redis://localhost:6379/0 uvicorn examples.service.app:app
    REDISSON_URL=redis://localhost:6379/0 \
        gunicorn --preload --workers 2 --worker-class uvicorn_worker.UvicornWorker \
        examples.service.app:app

    curl -X POST -H 'Idempotency-Key: 1' localhost:8000/orders/17/pay
    curl localhost:8000/health

An order is paid under a fenced lock, by one request at a time in all processes, and the entry in
the ledger is refused if a newer holder of the lock has made one. What a client is told:

| status | when | was it paid? |
|---|---|---|
| 200 | paid | once |
| 409 | another request works on this order; Redis said so | no |
| 503, `"no answer"` | Redis gave no answer in time | no |
| 503, `"lost"` | the lock was lost before the entry was made; `reason` says how | no |

So everything but 200 may be tried again, with the same key.

How it is done:

- One client for each process, `command_timeout=2`: no call waits longer for a Redis that is silent.
- `acquire_timeout=1`: no request waits longer than that for its turn.
- Busy is `AcquireTimeoutError`, no answer is `ConnectionLostError`: one exception handler each.
- A release that gets no answer is no error of the request. Its work is done, and was protected: the
  block ends with a warning in the log (`on_release_error="log"`), and the release is repeated in
  the background until the lease has run out.
- `/health` asks Redis, for half a second at most. A load balancer may act on it; an orchestrator
  should not restart processes because Redis is away: they recover by themselves.

`REDISSON_URL` names the Redis, `LEDGER` the SQLite file (`ledger.sqlite`).
"""
