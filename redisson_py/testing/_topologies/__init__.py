"""Several servers that belong together: clusters, Sentinel, replicas."""
