"""Reads configuration files of Redisson as servers and options."""
