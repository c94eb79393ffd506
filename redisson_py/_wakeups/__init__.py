"""Who waits where, and who is woken by a message."""
