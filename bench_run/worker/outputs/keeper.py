"""What is kept of a round's outputs while its samples are taken; nothing is checked here."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.engines.base import KeepsInputs
from bench_run.errors import EngineError
from bench_run.validate.settings import KEPT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_run.engines.base import Plan
    from bench_run.graph.model import Graph
    from bench_run.measure.canaries import Canaries
    from bench_run.tensors.storage import Storages
    from bench_run.validate.settings import ValidationSettings
    from bench_run.worker.outputs.reader import OutputReader

SHARE_OF_KEEPING = 0.05
"""Of the budget: what keeping outputs may take while samples are taken; the rest is for checks."""
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


class OutputKeeper:
    """Keeps what a plan leaves while it is measured: outputs of the first run, of the first and the
    last timed iteration and of others at random, and of one more run afterwards.

    Where the plan's outputs can be reached, each timed iteration runs on canaries, or others right
    before it do (see `bench_run.measure.canaries`), and what is kept are the outputs it left.
    Elsewhere the iteration is repeated on poisoned outputs, and those are kept. Nothing is checked
    here: no sample waits for that, and neither does anybody who wants the device. Where the device
    can hold copies, they are read once it is no longer held alone (`run_again`).
    """

    def __init__(
        self, plan: Plan, subject: Subject, first: Storages, canaries: Canaries,
        reader: OutputReader, *, wanted: bool,
    ) -> None:  # fmt: skip
        """`first`: what the first run left on poisoned outputs, which `reader` has just read.
        `wanted`: whether anything is going to be checked."""
        self.plan, self._reader = plan, reader
        self.upload: Callable[[Storages], None] | None = None
        """In place of the plan's own."""
        self.restore: Callable[[], None] | None = None
        """Puts the inputs in place that outputs are checked for; None: samples run on these."""
        self.canaries = canaries
        self.subject = subject
        self.wanted = wanted
        self.first = first if wanted else {}
        self.kept: list[tuple[int, Storages]] = []
        """Timed iterations, in order."""
        self.after: Storages = {}
        """Of one more run, on outputs that were poisoned in full."""
        self.changed_inputs: tuple[int, ...] | None = None
        self.elsewhere: tuple[Storages, Storages] | None = None
        """Other inputs, and what came of them."""
        self.repeats = 0
        self.spent_ns = 0
        """What keeping outputs took while samples were taken."""
        self._budget_ns = round(subject.settings.budget_s * 1e9 * SHARE_OF_KEEPING)
        self._draw = random.Random(f"{subject.case_id} {subject.round_index}")  # noqa: S311
        self._share = 1.0
        self._kept_bytes = 0
        self._held: list[int] = []
        """Timed iterations whose outputs the device holds, in order."""
        if wanted:
            self._reserve()

    def _reserve(self) -> None:
        """Room for the first and the last timed iteration, and for as many others as the budget
        can read."""
        others, reader = max(0, self.subject.iterations - 2), self._reader
        affordable = self._budget_ns // max(1, reader.took_ns)
        fits = KEPT_BYTES // max(1, reader.nbytes)
        reader.reserve(2 + min(others, affordable, fits))
        if reader.room:
            self._share = (reader.room - 2) / max(1, self.subject.iterations - 1)

    def timed_check(self, iteration: int) -> bool:
        """After a timed iteration; returns whether its outputs were kept.

        The first one's are, then others' at random: as many as the budget pays for.
        """
        if not self.wanted or not self._is_chosen(iteration):
            return False
        begin = time.perf_counter_ns()
        self._keep(iteration)
        self.spent_ns += time.perf_counter_ns() - begin
        if iteration == 0 and not self._held:
            left_ns = max(0, self._budget_ns - self.spent_ns)
            affordable = left_ns / max(1, self.spent_ns)
            self._share = affordable / max(1, self.subject.iterations - 1)
        return True

    def _is_chosen(self, iteration: int) -> bool:
        if iteration == 0:
            return True
        if self._held:  # the last room is for the last iteration
            return self._reader.room > 1 and self._draw.random() < self._share
        fits = self.spent_ns < self._budget_ns and self._kept_bytes < KEPT_BYTES
        return fits and self._draw.random() < self._share

    def _keep(self, iteration: int) -> None:
        """What the iteration left; where that says nothing of it, what it leaves when repeated."""
        if not self.canaries.watching or self.restore is not None:
            self._repeat()
        if self._reader.hold():
            self._held.append(iteration)
            return
        outputs = self._reader.read()
        self.kept.append((iteration, outputs))
        self._kept_bytes += sum(storage.nbytes for storage in outputs.values())

    def _repeat(self) -> None:
        """Once more, with nothing of the run before left in the outputs."""
        self.repeats += 1
        if self.restore is not None:
            self.restore()
        self.plan.poison()
        self.plan.run()

    def keep_last(self, iterations: int) -> None:
        """Before anything else runs: the last timed iteration is kept whatever the budget says."""
        last = max((*self._held, *(iteration for iteration, _ in self.kept)), default=-1)
        if self.wanted and last != iterations - 1:
            self._keep(iterations - 1)

    def expect(self) -> None:
        """Memory of the host for `run_again` and `run_on` is in place from here on."""
        if self.wanted:
            self._reader.expect(len(self._held) + 1 + self.wants_other_inputs)

    @property
    def looks_at_inputs(self) -> bool:
        """Whether `run_again` compares them."""
        if not self.wanted or not isinstance(self.plan, KeepsInputs):
            return False
        size = sum(tensor.bytes for tensor in self.subject.graph.inputs)
        return self.subject.round_index == 0 or size <= INPUT_BYTES_EACH_ROUND

    def run_again(self, inputs: Storages) -> None:
        """What the device holds is read; one more run, on outputs that are poisoned in full; then
        whether the inputs are what they were."""
        if not self.wanted:
            return
        self.kept += zip(self._held, self._reader.fetch(), strict=True)
        self.kept.sort(key=lambda each: each[0])
        self._held = []
        self._repeat()
        self.after = self._reader.read()
        if self.looks_at_inputs and isinstance(self.plan, KeepsInputs):
            self.changed_inputs = self.plan.changed_inputs(inputs)

    @property
    def wants_other_inputs(self) -> bool:
        return self.wanted and self.subject.round_index == 0

    def run_on(self, others: Storages) -> None:
        """The plan's last run. An engine that fails on other inputs of the same kind says nothing
        of those that it was timed on."""
        with suppress(EngineError):
            upload = self.plan.upload if self.upload is None else self.upload
            upload(others)
            self._repeat()
            self.elsewhere = others, self._reader.read()
