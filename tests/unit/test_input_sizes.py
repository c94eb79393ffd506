"""Configuration files and URLs of a megabyte, of the shapes that cost most.

Most of the work is inside of C functions, so counted calls would not show it. Each input is read in
a process that may have 1 GiB of memory and a minute of a processor: a tenth of either is enough
today, whatever else the machine does, and a cost that grows with the square needs a hundred times
as much.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import repository
from tests.unit.config_files import need_yaml

#: Bytes.
MEMORY = 2**30

#: Seconds of a processor.
PROCESSOR = 60

READ = """
import resource, sys

resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]), int(sys.argv[2])))
from redisson_py._redis.config.file import read_file
from redisson_py._redis.url import read_url

path = sys.argv[3]
try:
    read_url(open(path).read()) if path.endswith(".url") else read_file(path)
except ValueError as error:
    print(str(error).removeprefix(path + ": "), end="")
else:
    print("read", end="")
"""

MILLION = 10**6

#: Name of the file, content, outcome.
SHAPES = {
    "aliases of aliases": (
        "a.yaml",
        "a: &a0 [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)),
        "line 1: an alias refers to this value: repeat the value instead",
    ),
    "names of JSON": (
        "a.json",
        "{" + ",".join(f'"{n}":0' for n in range(MILLION // 12)) + "}",
        "read",
    ),
    "names twice in JSON": (
        "a.json",
        "{" + ",".join(f'"{n}":0,"{n}":0' for n in range(MILLION // 24)) + "}",
        "a name is set twice",
    ),
    "dots of TOML": (
        "a.toml",
        ".".join(["a"] * (MILLION // 2)) + " = 1",
        "values are nested too deeply",
    ),
    "variables without an end": ("a.json", '{"a": "' + "${a:-" * (MILLION // 5) + '"}', "read"),
    "a long name above many": (
        "a.json",
        '{"'
        + "a" * (MILLION // 2)
        + '": {'
        + ",".join([f'"{n}":"x"' for n in range(MILLION // 30)])
        + "}}",
        "read",
    ),
    "hosts behind a long password": (
        "a.url",
        f"redis://:{'p' * (MILLION // 2)}@" + ",".join(f"h{n}" for n in range(MILLION // 16)),
        "read",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_great_input_costs_little(shape: str, tmp_path: Path) -> None:
    name, content, outcome = SHAPES[shape]
    if name.endswith(".yaml"):
        need_yaml()
    path = tmp_path / name
    path.write_text(content)
    ended = subprocess.run(
        [sys.executable, "-c", READ, str(MEMORY), str(PROCESSOR), str(path)],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
    )
    assert (ended.stdout, ended.returncode) == (outcome, 0), ended.stderr[-2000:]
