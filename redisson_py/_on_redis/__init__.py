"""What locks, semaphores, latches and barriers on Redis have in common, beside the engine."""
