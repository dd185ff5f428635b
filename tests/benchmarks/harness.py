"""Frame of the scripts in this folder: their words, a folder for their files, costs of commands.

A script is a function `main` whose arguments are the words of its module's docstring, by docopt:
``script(main)`` reads them, numbers as numbers, and exits with what `main` returns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from docopt import docopt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def script(main: Callable[..., int | None]) -> None:
    """Run `main` with the words of the command line, by the docstring of its module."""
    words = docopt(sys.modules[main.__module__].__doc__ or "")
    sys.exit(main(**{_name(key): value_of(value) for key, value in words.items()}))


def _name(word: str) -> str:
    return word.strip("-<>").lower().replace("-", "_")


def value_of(text: Any) -> Any:
    if isinstance(text, list):
        return [value_of(one) for one in text]
    if not isinstance(text, str):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@contextmanager
def folder(keep: str | None = None) -> Iterator[Path]:
    """The folder that the user names, or a temporary one."""
    with tempfile.TemporaryDirectory() as temporary:
        found = Path(keep or temporary)
        found.mkdir(parents=True, exist_ok=True)
        yield found


def install_engine(source: Path, folder: Path) -> dict[str, str]:
    """Put an engine's module into a folder that looks like an installed distribution; the variables
    with which `bench-run` knows it. `source`: ``NAME_engine.py``."""
    name = source.stem.removesuffix("_engine")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (folder / source.name).write_text(source.read_text())
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    entry = f"{name} = {source.stem}"
    (info / "entry_points.txt").write_text(f"[bench_run.engines]\n{entry}\n")
    paths = [str(folder), environment()["PYTHONPATH"]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class Cost(NamedTuple):
    """Of a command and all processes that it waited for."""

    wall_s: float
    processor_s: float
    peak_mib: float


def environment() -> dict[str, str]:
    """Variables of a command that imports the packages of this checkout."""
    paths = (str(ROOT), str(ROOT / "schema"), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


_WATCH = """
import json, resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
wall_s, used = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""Run in a small process: the most memory of what starts a command counts for the command."""


def cost(command: Sequence[str], codes: Sequence[int] = (0,)) -> Cost:
    """Run a command whose exit code has to be one of these."""
    watch = [sys.executable, "-I", "-S", "-c", _WATCH, *command]
    done = subprocess.run(watch, env=environment(), stdout=subprocess.PIPE, check=True)
    code, *figures = json.loads(done.stdout)
    assert code in codes, (code, command)
    return Cost(*figures)


def middle(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))


def in_turns(
    commands: Mapping[str, Sequence[str]], turns: int, codes: Sequence[int] = (0,)
) -> dict[str, Cost]:
    """Medians of commands that run one after the other, `turns` times: a slow spell of the machine
    hits all of them."""
    found: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(turns):
        for name, command in commands.items():
            found[name].append(cost(command, codes))
    return {name: middle(costs) for name, costs in found.items()}
