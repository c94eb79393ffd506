"""Benchmarks: what a lock costs, beside its rivals, in one run on one server."""
