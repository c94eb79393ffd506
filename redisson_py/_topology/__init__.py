"""Several servers: which one serves a key, and which of them must have confirmed a grant."""
