"""Random lifecycles of every kind of thing, checked from outside after every step.

A fixed number of them, the same at each run; `make soak` plays more.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.lifecycle.running import run_lifecycles
from tests.lifecycle.subjects import SUBJECTS

pytestmark = pytest.mark.also("cluster", "cluster+sync")

#: Lifecycles of each kind; they take some seconds. Inspecting a whole cluster takes longer.
FEW, MANY = 12, 60


@pytest.mark.timeout(900)
@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.more)])
@pytest.mark.parametrize("kind", SUBJECTS)
def test_no_lifecycle_breaks_an_invariant(
    kind: str,
    examples: int,
    server_url: str,
    session_cluster: object,
    client_options: dict[str, Any],
    pytestconfig: pytest.Config,
) -> None:
    uvloop = pytestconfig.getoption("--loop") == "uvloop"
    if session_cluster is not None and examples > FEW:
        pytest.skip(f"on a cluster {FEW} of them, in the other test, take long enough")
    run_lifecycles(
        kind, server_url, options=client_options, examples=examples, uvloop=uvloop, shrink=False
    )
