"""Helpers that the tests of several folders share. Each import names its module."""
