"""Lines of benchdnn: options that hold until they change, and problems.

A text is words; lines mean nothing. ``--conv`` or ``conv:`` chooses the driver, which a file says
by its folder (``inputs/conv``). ``--dir=FWD_D,BWD_D`` sets an option, of several values each is
run; it holds until it is set again. ``--batch=FILE`` reads a file next to the one that names it.
Anything else is a problem. A word that begins with ``#`` begins a comment; a backslash joins the
words around it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import GraphError, UsageError
from bench_run.graph.benchdnn.problems import DRIVERS, Problem, Refused
from bench_run.graph.driver.convert import Conversion, Converted
from bench_run.graph.make import make_graphs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Options = Mapping[str, tuple[str, ...]]
SPELLINGS = {"bia_dt": "bia-dt", "bia_mask": "bia-mask", "attr_post_ops": "attr-post-ops"}
MEANING = (
    *("dir", "dt", "sdt", "ddt", "cfg", "tag", "stag", "wtag", "dtag", "alg", "alpha", "beta"),
    *("axis", "flags", "p", "eps", "mb", "bia-dt", "bia-mask", "attr-post-ops"),
)
"""Options that say what is computed; the others say how it is run and checked."""
CHANGING = (
    *("attr-scales", "attr-zero-points", "attr-dropout", "attr-rounding-mode", "attr-oscale"),
    *("encoding", "sparse", "strides", "grouped"),
)
"""Options that change the computation, of which nothing is known here."""
MOST_DEEP = 8


def convert_lines(text: str, where: str) -> Conversion:
    """Return the distinct problems of a text, in order of appearance, with how often each occurs.
    Raises `GraphError` for a text without problems."""
    found: dict[tuple[str, ...], Converted] = {}
    errors: list[GraphError] = []
    for line in _problems(text, where, 0):
        if isinstance(line, GraphError):
            errors.append(line)
            continue
        try:
            made = _convert(line)
        except GraphError as error:
            errors.append(error)
            continue
        key = (made.command, *(graph.name for graph in made.graphs))
        known = found.get(key)
        found[key] = made if known is None else replace(known, count=known.count + 1)
    if not found and not errors:
        raise GraphError(where, f"no problem of benchdnn in any line: {EXAMPLE}")
    return Conversion(tuple(found.values()), tuple(errors))


EXAMPLE = "write such as 'conv: mb32ic64ih56oc64oh56kh3ph1'"


def _problems(text: str, where: str, depth: int) -> Iterator[Problem | GraphError]:
    """Yield the problems of a text with each combination of their options."""
    yield from _Reader().read(text, where, _driver_of(where), depth)


class _Reader:
    """Options that hold from word to word, also over files."""

    def __init__(self) -> None:
        self.options: dict[str, tuple[str, ...]] = {}

    def read(
        self, text: str, where: str, driver: str, depth: int
    ) -> Iterator[Problem | GraphError]:
        for place, word in _apart(_words(text, where)):
            name, _, value = word.removeprefix("--").partition("=")
            name = SPELLINGS.get(name, name)
            called = word.rstrip(":").removeprefix("--")
            if called in DRIVERS:
                if called != driver:
                    self.options = {}
                driver = called
            elif name == "batch" and value:
                yield from self._file(value, where, driver, depth)
            elif word == "--reset":
                self.options = {}
            elif word.startswith("--"):
                self.options[name] = tuple(value.split(","))
            elif not driver:
                known = ", ".join(DRIVERS)
                yield GraphError(place, f"{word!r}: no driver before it; choose from {known}")
                return
            else:
                for one in _combinations(self.options):
                    yield Problem(driver, word, one, place)

    def _file(
        self, name: str, where: str, driver: str, depth: int
    ) -> Iterator[Problem | GraphError]:
        near = Path(where).parent
        places = [near / name, near / "inputs" / driver / name, Path(name)]
        path = next((one for one in places if one.is_file()), None)
        if path is None or depth == MOST_DEEP:
            why = "files that name each other" if path else f"no such file, nor {near / name}"
            yield GraphError(where, f"--batch={name}: {why}")
            return
        text = path.read_text("utf-8", "replace")
        yield from self.read(text, str(path), driver or _driver_of(str(path)), depth + 1)


def _words(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Yield (place, word), without quotes around values and without comments."""
    found: list[tuple[str, str]] = []
    glued = False
    for number, line in enumerate(text.splitlines(), 1):
        for word in line.split():
            if word.startswith("#"):
                break
            plain = word.rstrip("\\")
            if glued and found:
                found[-1] = found[-1][0], found[-1][1] + plain
            elif plain:
                found.append((f"{where}:{number}", plain))
            glued = word.endswith("\\")
    for place, word in found:
        is_option = word.startswith("--")
        yield place, re.sub("['\"]", "", word).replace(";", "+") if is_option else word


def _apart(words: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the words; ``conv:mb2ic3ih4`` is two."""
    for place, word in words:
        driver, _, rest = word.partition(":")
        if driver in DRIVERS and rest:
            yield from ((place, driver), (place, rest))
        else:
            yield place, word


def _driver_of(where: str) -> str:
    """Return the driver that the folders of a file name; empty without one."""
    return next((part for part in reversed(Path(where).parts[:-1]) if part in DRIVERS), "")


def _combinations(options: Options) -> Iterator[dict[str, str]]:
    names = [name for name in options if name in MEANING or name in CHANGING]
    for values in itertools.product(*(options[name] for name in names)):
        yield dict(zip(names, values, strict=True))


def _convert(problem: Problem) -> Converted:
    shown = " ".join(f"--{name}={value}" for name, value in problem.options.items() if value)
    command = " ".join(filter(None, ("benchdnn", f"--{problem.driver}", shown, problem.text)))
    for name in CHANGING:
        if problem.options.get(name):
            reason = f"--{name}={problem.options[name]} changes the values, and is not converted"
            return Converted(command, problem.where, reason=f"{problem.text}: {reason}")
    try:
        made = DRIVERS[problem.driver](problem)
    except Refused as error:
        return Converted(command, problem.where, reason=f"{problem.text}: {error}")
    except (ArithmeticError, ValueError) as error:  # --alpha=x, a stride of 0
        raise problem.error(str(error)) from None
    try:
        graphs = tuple(graph for spec in made.specs for graph in make_graphs(spec))
    except UsageError as error:
        return Converted(command, problem.where, reason=f"{problem.text}: {error}")
    return Converted(command, problem.where, graphs=graphs, notes=made.notes)
