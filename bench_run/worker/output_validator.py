"""A visit's outputs, the first run's and, as far as the time allows, the timed ones', held against
what is expected of them.

That is done element by element in float64, unless an earlier iteration or round of the same graph
left the very same bytes: then the result is the same.
"""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import Checks, Validation

from bench_run.files import replacing
from bench_run.validate.outputs import CheckResult, OutputChecker, save_outputs, validation
from bench_run.validate.tolerance import Circumstances, Tolerance, read_overrides, tolerances

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Plan
    from bench_run.tensors.storage import Storages
    from bench_run.worker.messages import RunCase


class OutputValidator:
    """Validates the first run and, as far as the budget allows, the timed iterations."""

    def __init__(self, plan: Plan, request: RunCase, inputs: Storages) -> None:
        self.plan = plan
        self._request = request
        self._judgement = request.validation_settings
        self._known: Remembered | None = None
        self._checker: OutputChecker | None = None
        if self._judgement.expected is not None:
            self._known = Remembered.read(self._judgement.expected)
            self._checker = _checker(request, inputs, self._known)
        self._budget_ns = round(request.validation_settings.budget_s * 1e9)
        self._spent_ns = 0
        self._rows: list[tuple[int, int, Any, str]] = []
        self._last_checked = -1
        self._results: list[Any] = []

    def check(self, iteration: int, *, timed: bool = False) -> None:
        """Hold the plan's outputs, as they are now, against the reference."""
        if self._checker is None:
            return
        begin = time.perf_counter_ns()
        outputs = self.plan.download()
        result = self._checker.check(outputs)
        if timed:
            self._rows.append((iteration, result.mismatched, result.max_abs, result.checksum))
        elif self._judgement.save_outputs is not None:
            save_outputs(
                Path(self._judgement.save_outputs),
                self._request.case_id,
                outputs,
                self._request.graph,
            )
        self._results.append(result)
        self._last_checked = iteration if timed else -1
        self._spent_ns += (time.perf_counter_ns() - begin) if timed else 0

    @property
    def timed_ns(self) -> int:
        """What the timed iterations' checks took so far."""
        return self._spent_ns

    def timed_check(self, iteration: int) -> bool:
        """After a timed iteration; returns whether the outputs were looked at."""
        if self._checker is None or (iteration > 0 and self._spent_ns >= self._budget_ns):
            return False
        self.check(iteration, timed=True)
        return True

    def finish(self, iterations: int) -> None:
        """The last timed iteration is checked whatever the budget says.

        The outputs are still those of the last run, which repeated the last sample's work.
        """
        if self._checker is not None and self._last_checked != iterations - 1:
            self.check(iterations - 1, timed=True)
        if self._known is not None:
            self._known.save()

    def checks(self) -> Checks | None:
        if self._checker is None:
            return None
        columns = tuple(zip(*self._rows, strict=True)) or ((), (), (), ())
        return Checks(*columns)

    def validation(self) -> Validation:
        validation_settings = self._judgement
        if self._checker is None:
            reason = validation_settings.reason or "no reference was asked for"
            return Validation("not checked", validation_settings.reference, reason, (), 0, 0, None)
        return validation(validation_settings.reference, self._request.graph, self._results)


@dataclass
class Remembered:
    """What earlier visits found out about a graph: a file beside its expected outputs, so valid for
    as long as these are, in one run."""

    path: Path
    tolerances: dict[int, Tolerance] | None = None
    results: dict[str, CheckResult] = field(default_factory=dict)
    """By checksum of the outputs."""
    saved: int = 0

    @classmethod
    def read(cls, folder: str) -> Remembered:
        path = Path(folder) / "remembered"
        try:
            allowed, results = pickle.loads(path.read_bytes())  # noqa: S301 - written below
        except (OSError, EOFError, pickle.UnpicklingError):
            return cls(path)
        return cls(path, allowed, results, len(results))

    def save(self) -> None:
        """Does nothing where nothing is new; what cannot be written is found out again."""
        if len(self.results) == self.saved:
            return
        with suppress(OSError), replacing(self.path) as part:
            part.write_bytes(pickle.dumps((self.tolerances, self.results)))


def _checker(request: RunCase, inputs: Storages, known: Remembered) -> OutputChecker:
    validation_settings = request.validation_settings
    assert validation_settings.expected is not None
    if known.tolerances is None:
        known.tolerances = _tolerances(request, inputs)
    expected = load_expected(validation_settings.expected)
    return OutputChecker(
        request.graph, expected, known.tolerances, validation_settings.mismatches, known.results
    )


def _tolerances(request: RunCase, inputs: Storages) -> dict[int, Tolerance]:
    validation_settings = request.validation_settings
    overrides = None
    if validation_settings.sidecar is not None:
        overrides = read_overrides(Path(validation_settings.sidecar), request.graph)
    return tolerances(
        request.graph,
        validation_settings.policy,
        validation_settings.rtol,
        validation_settings.atol,
        Circumstances(inputs, validation_settings.math, validation_settings.reference != "numpy"),
        overrides,
    )


def load_expected(folder: str) -> Mapping[int, np.ndarray[Any, Any]]:
    """Expected outputs by uid, mapped from disk rather than read."""
    paths = Path(folder).glob("*.npy")
    return {int(path.stem): np.load(path, mmap_mode="r") for path in paths}
