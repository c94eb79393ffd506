"""Lua scripts: their files, their contracts, and running them."""
