"""Configuration files of Redisson: read, and understood as servers and options."""
