"""One ordered RESP3 stream to each Redis node."""
