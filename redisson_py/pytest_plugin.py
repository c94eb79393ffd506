"""The pytest plugin of the extra `pytest`: real servers and clients as fixtures."""
