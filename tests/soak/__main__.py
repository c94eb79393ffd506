"""Everything of the soak, or one part: `python -m tests.soak`, `... outage --seconds 60`."""

from __future__ import annotations

import os
import subprocess
import sys

PARTS = ("lost_replies", "lifecycles", "outage", "loss_margin")
#: How often a slot moves in each test of it; in the suite five times.
MOVES = 50


def main() -> int:
    """Run the parts in turn, and the moves of slots; return 1 if one failed."""
    part, *options = sys.argv[1:] or [""]
    if part and part not in (*PARTS, "moves"):
        sys.exit(f"{part}: the parts are {', '.join(PARTS)}, moves")
    failed = False
    for name in PARTS:
        if part in ("", name):
            failed |= _failed(f"tests.soak.{name}", *options)
    if part in ("", "moves"):
        os.environ.setdefault("MOVES", str(MOVES))
        failed |= _failed("pytest", "-q", *options, "tests/topology/test_cluster_moves.py")
    return failed


def _failed(module: str, *options: str) -> bool:
    return bool(subprocess.run([sys.executable, "-m", module, *options], check=False).returncode)


if __name__ == "__main__":
    sys.exit(main())
