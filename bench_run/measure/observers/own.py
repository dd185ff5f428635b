"""``--observer FILE.py``: a person's own file looks at each round.

The file defines a class `Observer` with those of these methods that it needs: `before_round(plan)`,
`after_sample_block(plan)`, `after_round(plan)`, and `results()`, which returns numbers by name. A
name in `HIGHER` of the file is better when it is higher; the others are better when they are lower.
What fails there costs its numbers, never the round.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.document import Extra

from bench_run.errors import UsageError, message_of
from bench_run.measure.observers.base import Observer, Results, Round

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench_run.measure.loop import Measured

CLASS, RESULTS, HIGHER = "Observer", "results", "HIGHER"


def check_file(path: str) -> None:
    """Raise `UsageError` if the file is not an observer."""
    try:
        found = ast.parse(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"--observer {path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"--observer {path}: {message_of(error)}") from None
    own = [each for each in found.body if isinstance(each, ast.ClassDef) and each.name == CLASS]
    methods = {f.name for each in own for f in each.body if isinstance(f, ast.FunctionDef)}
    if RESULTS not in methods and not any(each.bases for each in own):
        raise UsageError(
            f"--observer {path}: it has no class {CLASS} with a method results(); see "
            "bench-run help running"
        )


def observers_of_files(paths: Iterable[str], this: Round) -> Iterator[Observer]:
    """Yield the observers of the files."""
    return (OwnObserver(path, this) for path in paths)


class OwnObserver(Observer):
    """The observer of a file. It is given the plan of the case."""

    def __init__(self, path: str, this: Round) -> None:
        super().__init__(this)
        self._path, self._problem = path, ""
        self._module: Any = None
        self._own: Any = None
        self._call("", self._load)

    def _load(self) -> None:
        from bench_run.user.source import load_source

        self._module = load_source(self._path).module
        self._own = self._module.Observer()

    def _call(self, name: str, work: Any) -> Any:
        if self._problem:
            return None
        try:
            return work()
        except (Exception, SystemExit) as error:  # foreign: the samples are there
            what = f"{name}: " if name else ""
            self._problem = f"--observer {Path(self._path).name}: {what}{message_of(error)}"
            return None

    def _tell(self, name: str) -> None:
        method = getattr(self._own, name, None)
        if method is not None:
            self._call(name, lambda: method(self.this.prepared.plan))

    def before_round(self) -> None:
        self._tell("before_round")

    def after_sample_block(self, measured: Measured) -> None:  # noqa: ARG002
        self._tell("after_sample_block")

    def after_round(self) -> None:
        self._tell("after_round")

    def results(self) -> Results:
        found = self._call("results", lambda: self._numbers(self._own.results()))
        notes = (self._problem,) if self._problem else ()
        return Results(notes=notes, extra=found or {})

    def _numbers(self, values: Any) -> dict[str, Extra]:
        higher = set(getattr(self._module, HIGHER, ()))
        found: dict[str, Extra] = {}
        for name, value in dict(values).items():
            is_number = not isinstance(value, str | bytes) and math.isfinite(value)
            if not is_number or not str(name).isidentifier():
                raise ValueError(f"expected numbers by name, not {name!r}: {value!r}")
            found[name] = Extra(float(value), "higher" if name in higher else "lower")
        return found
