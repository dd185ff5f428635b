"""The outputs of one round, the first run's and, as far as the time allows, the timed ones', held
against what is expected of them.

That is done element by element in float64, unless an earlier iteration or round of the same graph
left the very same bytes: then the result is the same.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.document import Checks, Validation

from bench_run.engines.base import KeepsInputs
from bench_run.tensors.layout import describe
from bench_run.validate.expected import make_checker
from bench_run.validate.outputs import CheckResult, save_outputs, validation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.engines.base import Plan
    from bench_run.graph.model import Graph
    from bench_run.measure.canaries import Canaries
    from bench_run.tensors.storage import Storages
    from bench_run.validate.expected import Remembered
    from bench_run.validate.outputs import OutputChecker
    from bench_run.validate.settings import ValidationSettings

KEPT_BYTES = 256 << 20
"""Outputs of timed iterations that are kept to be checked after the samples."""
INPUT_BYTES_EACH_ROUND = 64 * 1024**2
"""Larger inputs are compared with their copy in the first round only."""


@dataclass(frozen=True)
class Subject:
    """Whose outputs are validated, and by what."""

    case_id: str
    graph: Graph
    settings: ValidationSettings
    round_index: int
    iterations: int
    """That will be timed."""


class OutputValidator:
    """Validates the first run and, as far as the budget allows, the timed iterations.

    Where the plan's outputs can be reached, each timed iteration runs on canaries (see
    `bench_run.measure.canaries`), and what is checked are the outputs it left. Elsewhere the
    iteration is repeated on poisoned outputs, and those are checked.
    """

    def __init__(self, plan: Plan, subject: Subject, inputs: Storages, canaries: Canaries) -> None:
        self.plan = plan
        self.canaries = canaries
        self._subject = subject
        self._settings, self._graph = subject.settings, subject.graph
        self._checker: OutputChecker | None = None
        self._known: Remembered | None = None
        made = make_checker(subject.graph, inputs, subject.settings)
        if made is not None:
            self._checker, self._known = made
        self._budget_ns = round(self._settings.budget_s * 1e9)
        self._spent_ns = 0
        self._draw = random.Random(f"{subject.case_id} {subject.round_index}")  # noqa: S311
        self._share = 1.0
        self._rows: list[tuple[int, int, Any, str]] = []
        self._last_checked = -1
        self._results: list[CheckResult] = []
        self._repeats = 0
        self._kept: list[tuple[int, Storages]] = []
        """Iterations whose outputs are checked once the samples are taken."""
        self._kept_bytes = 0
        self._after: Storages | None = None
        """The outputs of one more run."""
        self._last: CheckResult | None = None
        """The run on outputs that were poisoned in full, after the last sample."""
        self._changed_inputs: tuple[int, ...] | None = None

    def check_first(self, outputs: Storages) -> None:
        """Hold the outputs of the first run, which began on poisoned ones, against the
        reference."""
        if self._checker is None:
            return
        self._results.append(self._checker.check(outputs))
        if self._settings.save_outputs is not None:
            folder = Path(self._settings.save_outputs)
            save_outputs(folder, self._subject.case_id, outputs, self._graph)

    @property
    def timed_ns(self) -> int:
        """What the timed iterations' checks took so far."""
        return self._spent_ns

    def timed_check(self, iteration: int) -> bool:
        """After a timed iteration; returns whether the outputs were looked at.

        The first is, then others at random: as many as the budget pays for. Those are kept, and
        checked when no sample waits for it.
        """
        if self._checker is None or not self._is_chosen(iteration):
            return False
        self._check(iteration)
        if iteration == 0:
            left_ns = max(0, self._budget_ns - self._spent_ns)
            affordable = left_ns / max(1, self._spent_ns)
            self._share = affordable / max(1, self._subject.iterations - 1)
        return True

    def _is_chosen(self, iteration: int) -> bool:
        if iteration == 0:
            return True
        return self._spent_ns < self._budget_ns and self._draw.random() < self._share

    def _check(self, iteration: int) -> None:
        assert self._checker is not None
        begin = time.perf_counter_ns()
        outputs = self._left_outputs()
        size = sum(storage.nbytes for storage in outputs.values())
        if iteration > 0 and self._kept_bytes + size <= KEPT_BYTES:
            self._keep(iteration, outputs, size)
        else:
            self._note(iteration, outputs)
        self._spent_ns += time.perf_counter_ns() - begin

    def _keep(self, iteration: int, outputs: Storages, size: int) -> None:
        self._kept.append((iteration, outputs))
        self._kept_bytes += size
        self._last_checked = iteration

    def _left_outputs(self) -> Storages:
        """What the iteration left; where that says nothing of it, what it leaves when repeated."""
        if not self.canaries.watching:
            self._repeat()
        return self.plan.download()

    def _note(self, iteration: int, outputs: Storages) -> None:
        assert self._checker is not None
        result = self._checker.check(outputs)
        self._rows.append((iteration, result.mismatched, result.max_abs, result.checksum))
        self._results.append(result)
        self._last_checked = iteration

    def _repeat(self) -> None:
        """Once more, with nothing of the run before left in the outputs."""
        self._repeats += 1
        self.plan.poison()
        self.plan.run()

    def keep_last(self, iterations: int) -> None:
        """Before anything else runs: the outputs of the last timed iteration, which is checked
        whatever the budget says. `finish` does so."""
        if self._checker is not None and self._last_checked != iterations - 1:
            self._keep(iterations - 1, self._left_outputs(), 0)

    @property
    def looks_at_inputs(self) -> bool:
        """Whether `run_again` wants them."""
        if self._checker is None or not isinstance(self.plan, KeepsInputs):
            return False
        size = sum(tensor.bytes for tensor in self._graph.inputs)
        return self._subject.round_index == 0 or size <= INPUT_BYTES_EACH_ROUND

    def run_again(self, inputs: Storages) -> None:
        """One more run, on outputs that are poisoned in full; then whether the inputs are what they
        were."""
        if self._checker is None:
            return
        self._repeat()
        self._after = self.plan.download()
        if self.looks_at_inputs and isinstance(self.plan, KeepsInputs):
            self._changed_inputs = self.plan.changed_inputs(inputs)

    def finish(self) -> None:
        """Checks what was kept, and the run after it."""
        if self._checker is not None:
            while self._kept:
                self._note(*self._kept.pop(0))
            if self._after is not None:
                self._last = self._checker.check(self._after)
                self._after = None
        if self._known is not None:
            self._known.save()

    def checks(self) -> Checks | None:
        if self._checker is None:
            return None
        columns = tuple(zip(*self._rows, strict=True)) or ((), (), (), ())
        return Checks(*columns)

    def validation(self) -> Validation:
        settings = self._settings
        if self._checker is None:
            reason = settings.reason or "no reference was requested"
            result = Validation("not checked", settings.reference, reason, (), 0, 0, None)
        else:
            result = self._found()
        changed = self._changed_inputs
        result = replace(
            result,
            iterations_poisoned=self.canaries.looked + self._repeats,
            inputs_unchanged=None if changed is None else not changed,
        )
        problems = [*self._untouched(), *self._changed()]
        if not problems:
            return result
        also = [result.reason] if result.status == "failed" and result.reason else []
        wrong = result.iterations_mismatched + self.canaries.untouched
        return replace(
            result,
            status="failed",
            reason="; ".join([*problems, *also]),
            iterations_mismatched=wrong,
        )

    def _found(self) -> Validation:
        """Of the first run and the checked iterations; where these are right, of the last run."""
        reference, graph = self._settings.reference, self._graph
        result = validation(reference, graph, self._results)
        if result.status == "failed" or self._last is None or not self._last.mismatched:
            return result
        last = validation(reference, graph, [self._last])
        reason = (
            f"right in the first run, but wrong when run again on poisoned outputs: {last.reason}"
        )
        return replace(result, status="failed", reason=reason, outputs=last.outputs)

    def _untouched(self) -> Iterator[str]:
        if self.canaries.untouched:
            yield (
                f"{self.canaries.untouched} of {self.canaries.looked} iterations wrote nothing: "
                "the outputs were still as they had been before the iteration"
            )

    def _changed(self) -> Iterator[str]:
        if self._changed_inputs:
            graph = self._graph
            names = ", ".join(describe(graph.by_uid[uid]) for uid in self._changed_inputs)
            yield f"the engine wrote into its inputs: {names}"
