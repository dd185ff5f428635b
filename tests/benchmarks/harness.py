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

from tests.support import register_engines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def script(main: Callable[..., int | None]) -> None:
    """Run `main` with the words of the command line, by the docstring of its module. Each word is
    of the type that the argument's annotation names; a wrong one is one line and exit code 1."""
    words = docopt(sys.modules[main.__module__].__doc__ or "")
    kinds = main.__annotations__
    usual = kinds.get("words", "str")
    sys.exit(main(**{_name(w): read(w, t, kinds.get(_name(w), usual)) for w, t in words.items()}))


def _name(word: str) -> str:
    return word.strip("-<>").lower().replace("-", "_")


def read(word: str, text: Any, kind: str) -> Any:
    """Return the value of a word by an annotation: ``int``, ``float | None``, ``list[int]``, …
    Ends the program for a text that is not a number where one is expected."""
    if isinstance(text, list):
        return [read(word, one, kind) for one in text]
    wanted = next((type_ for type_ in (int, float) if type_.__name__ in kind), None)
    if wanted is None or not isinstance(text, str):
        return text
    try:
        return wanted(text)
    except ValueError:
        sys.exit(f"{word}: expected a number, got {text!r}")


def one_of(word: str, given: Sequence[str], known: Collection[str]) -> Sequence[str]:
    """Return the given names; end the program for one that is not known."""
    for name in given:
        if name not in known:
            sys.exit(f"{word}: no {name!r}; choose from {', '.join(known)}")
    return given


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
    register_engines(folder, **{name: source.stem})
    (folder / source.name).write_text(source.read_text())
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
