"""The outputs of one round, the first run's and, as far as the time allows, the timed ones', held
against what is expected of them.

That is done element by element in float64, unless an earlier iteration or round of the same graph
left the very same bytes: then the result is the same.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_schema.document import Checks, Validation

from bench_run.tensors.layout import describe
from bench_run.validate.expected import make_checker
from bench_run.validate.outputs import CheckResult, save_outputs, validation
from bench_run.worker.outputs.other_inputs import ignores_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench_run.tensors.storage import Storages
    from bench_run.validate.outputs import OutputChecker
    from bench_run.validate.settings import ValidationSettings
    from bench_run.validate.tolerance import Tolerance
    from bench_run.worker.outputs.keeper import OutputKeeper


class OutputValidator:
    """Holds what was kept against what is expected: the first run, the first and the last timed
    iteration and the run afterwards always, other iterations as far as the budget allows."""

    def __init__(
        self, keeper: OutputKeeper, settings: ValidationSettings, inputs: Callable[[], Storages]
    ) -> None:
        """`inputs`: asked for where the tolerances are not known from an earlier round."""
        self._keeper = keeper
        self._settings, self._graph = settings, keeper.subject.graph
        self._checker: OutputChecker | None = None
        self._rows: list[tuple[int, int, Any, str]] = []
        self._results: list[CheckResult] = []
        self._last: CheckResult | None = None
        self._ignores_inputs = False
        made = make_checker(self._graph, inputs, settings)
        if made is not None:
            self._checker, known = made
            self._check(self._checker)
            known.save()
            if known.tolerances is not None:
                self._compare_elsewhere(known.tolerances)

    def _check(self, checker: OutputChecker) -> None:
        keeper = self._keeper
        self._results.append(checker.check(keeper.first))
        if self._settings.save_outputs is not None:
            folder = Path(self._settings.save_outputs)
            save_outputs(folder, keeper.subject.case_id, keeper.first, self._graph)
        end_ns = time.perf_counter_ns() + round(self._settings.budget_s * 1e9) - keeper.spent_ns
        always = {keeper.kept[0][0], keeper.kept[-1][0]} if keeper.kept else set()
        while keeper.kept:
            iteration, outputs = keeper.kept.pop(0)
            if iteration in always or time.perf_counter_ns() < end_ns:
                self._note(iteration, checker.check(outputs))
        self._last = checker.check(keeper.after)

    def _compare_elsewhere(self, tolerances: Mapping[int, Tolerance]) -> None:
        keeper = self._keeper
        if keeper.elsewhere is not None:
            others, found = keeper.elsewhere
            outputs = keeper.after, found
            self._ignores_inputs = ignores_inputs(self._graph, others, outputs, tolerances)

    def _note(self, iteration: int, result: CheckResult) -> None:
        self._rows.append((iteration, result.mismatched, result.max_abs, result.checksum))
        self._results.append(result)

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
        changed = self._keeper.changed_inputs
        result = replace(
            result,
            reference_source=settings.source,
            iterations_poisoned=self._keeper.canaries.looked + self._keeper.repeats,
            inputs_unchanged=None if changed is None else not changed,
        )
        problems = [*self._untouched(), *self._changed(), *self._frozen()]
        if not problems:
            return result
        also = [result.reason] if result.status == "failed" and result.reason else []
        wrong = result.iterations_mismatched + self._keeper.canaries.untouched
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
        canaries = self._keeper.canaries
        if canaries.untouched:
            yield (
                f"{canaries.untouched} of {canaries.looked} iterations wrote nothing: "
                "the outputs were still as they had been before the iteration"
            )

    def _frozen(self) -> Iterator[str]:
        if self._ignores_inputs:
            yield "the outputs do not follow the inputs: other inputs gave the same ones"

    def _changed(self) -> Iterator[str]:
        if self._keeper.changed_inputs:
            graph = self._graph
            names = ", ".join(describe(graph.by_uid[uid]) for uid in self._keeper.changed_inputs)
            yield f"the engine wrote into its inputs: {names}"
