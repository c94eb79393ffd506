"""RateLimiter: so many units in any interval, for all who share it."""
