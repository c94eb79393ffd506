"""Leases: what an acquisition returns, and keeping it alive."""
