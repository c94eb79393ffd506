"""What joins redisson_py to other packages; each module needs the extra of its name."""
