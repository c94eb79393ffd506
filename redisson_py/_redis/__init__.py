"""Redis and Valkey: one backend of the engine."""
