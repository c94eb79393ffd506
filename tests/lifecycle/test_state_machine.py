"""Random lifecycles of every kind of thing, checked from outside after every step.

A fixed number of them, the same at each run; `make soak` plays more.
"""

from __future__ import annotations

import pytest

from tests.lifecycle.running import run_lifecycles
from tests.lifecycle.subjects import SUBJECTS

#: Lifecycles of each kind; some seconds.
EXAMPLES = 60


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", SUBJECTS)
def test_no_lifecycle_breaks_an_invariant(
    kind: str, server_url: str, pytestconfig: pytest.Config
) -> None:
    uvloop = pytestconfig.getoption("--loop") == "uvloop"
    run_lifecycles(kind, server_url, examples=EXAMPLES, uvloop=uvloop, shrink=False)
