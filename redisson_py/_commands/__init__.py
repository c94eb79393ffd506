"""What is sent to Redis and what its replies mean: keys and arguments in, values out. No I/O."""
