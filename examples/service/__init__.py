r"""A small web service that pays each order once and tells busy from broken, even in an outage.

    pip install ./redisson_py fastapi uvicorn gunicorn uvicorn-worker
    cd redisson_py

    REDISSON_URL=redis://localhost:6379/0 uvicorn examples.service.app:app
    REDISSON_URL=redis://localhost:6379/0 \
        gunicorn --preload --workers 2 --worker-class uvicorn_worker.UvicornWorker \
        examples.service.app:app

    curl -X POST -H 'Idempotency-Key: 1' localhost:8000/orders/17/pay
    curl localhost:8000/health

The order's fenced lock lets one request at a time pay it, in all processes. The order's row in the
ledger says who has paid it, and refuses a holder of the lock that a newer one has overtaken. So a
second request with another key finds the order paid. Answers:

| status | when | does the ledger say paid? |
|---|---|---|
| 200 | this key has paid it, now or earlier | yes, once |
| 409, `"already paid"` | another key has paid it | yes, once |
| 409, `"busy"` | another request is working on it | not by this request |
| 503, `"no answer"` | Redis did not answer in time | not by this request |
| 503, `"lost"` | the lock was lost before the entry; `reason` says how | not by this request |
| 503, `"closing"` | this process is ending | not by this request |

After 409 `"busy"` and 503, send the same request again, with the same key: it charges nobody twice.

How it works:

- One client per process, with `command_timeout=2`: no call waits longer for a silent Redis.
- `acquire_timeout=1`: no request waits longer for the lock.
- Busy is `AcquireTimeoutError`, no answer is `ConnectionLostError`. Each has an exception handler.
- The bank is charged with the order as its idempotency key. A request that lost its lock, or died,
  after the charge and before the entry leaves the order unpaid in the ledger; the next request
  repeats the charge under the same key.
- A release without an answer does not fail the request, whose work is done and was protected: the
  client logs a warning (`on_release_error="log"`) and repeats the release until the lease ends.
- `/health` asks Redis and waits half a second at most. Use it for a load balancer. Do not let an
  orchestrator restart processes because Redis is away: they recover without a restart.

`REDISSON_URL` names the Redis, `LEDGER` the SQLite file (`ledger.sqlite`).
"""
