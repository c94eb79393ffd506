"""What every synchronizer shares: holds, leases, requests, the local queue, waiting, wake-ups."""
