"""Which server serves a key: clusters, Sentinel, several servers of which one is master."""
