"""Runs `redisson_py._cli`."""

from redisson_py._cli import main

raise SystemExit(main())
