"""Locks on etcd, shared with Go's `concurrency.Mutex` and `etcdctl lock`.

`store` keeps holds, by transactions of `queue`; `session` is the lease that all its keys are under,
`watches` tells when a key is gone, `link` makes the calls over a `connection`, `messages` has what
they consist of, and `url` says where they go.
"""

from redisson_py._stores.etcd.store import EtcdStore as EtcdStore
