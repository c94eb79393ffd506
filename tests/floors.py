"""The oldest releases that pyproject.toml allows, as pip takes them: `make test-floor`.

pip install --no-deps $(python -m tests.floors)
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator

from packaging.requirements import Requirement

from tests.support import repository


def floors(extras: Iterable[str]) -> Iterator[str]:
    """Yield `name==version` for each requirement of the package and of these extras, each once."""
    project = tomllib.loads((repository.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["dependencies"], *(project["optional-dependencies"][each] for each in extras)]
    for text in dict.fromkeys(each for group in groups for each in group):
        requirement = Requirement(text)
        (floor,) = (each.version for each in requirement.specifier if each.operator == ">=")
        yield f"{requirement.name}=={floor}"


if __name__ == "__main__":
    sys.stdout.write(" ".join(floors(sys.argv[1:])))
