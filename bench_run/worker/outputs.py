"""What a plan left in its outputs: read, kept while samples are taken, and judged."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bench_schema.document import Checks, Validation

from bench_run.engines.reported import Reports
from bench_run.errors import BenchRunError, EngineError
from bench_run.graph.dtypes import array_type
from bench_run.measure.contents import draw_moves, moved
from bench_run.tensors.data import Data, inputs_of
from bench_run.tensors.host_memory import in_place
from bench_run.tensors.layout import describe, plain_array, storage_size
from bench_run.validate.expected import make_checker
from bench_run.validate.outputs import (
    CheckResult,
    OutputChecker,
    checksum,
    save_outputs,
    validation,
)
from bench_run.validate.settings import CHANGED_SHARES, KEPT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.engines.base import Plan
    from bench_run.graph.model import Graph
    from bench_run.measure.canaries import Canaries
    from bench_run.measure.contents import Contents, Move
    from bench_run.measure.probes import Probes
    from bench_run.tensors.layout import Storage, Storages
    from bench_run.validate.settings import ValidationSettings
    from bench_run.validate.tolerance import Tolerance


# What a plan left in its outputs, read as fast as the device gives it.
#
# Whoever measures holds the device alone, and nobody else can meanwhile. Reading outputs takes
# longer than measuring: so copies of them stay on the device until others may use it too, and the
# host's memory that they are read into is in place before.

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Plan
    from bench_run.graph.model import Graph
    from bench_run.streams.base import Stream
    from bench_run.tensors.layout import Storages

    Addresses = Mapping[int, int]
    """By uid."""

ALIGNMENT = 256
"""Of each output in a copy."""


class OutputReader:
    """Outputs are read where they lie, as far as the plan says that: from memory of the host, or
    of a device whose stream copies memory, which can hold copies too. Else they are what the plan
    downloads."""

    def __init__(self, plan: Plan, stream: Stream, graph: Graph) -> None:
        self._plan, self._stream = plan, stream
        memory = stream.abilities.memory
        self._wait_for_device = stream.abilities.wait_for_device
        self._locate = plan.abilities.locate_outputs
        self._memory = None if self._locate is None or memory is None else memory()
        self._sizes = {t.uid: (storage_size(t), array_type(t.data_type)) for t in graph.outputs}
        self._in_place: list[Storages] = []
        self._block: int | None = None
        self._rooms: list[Addresses] = []
        self._held: list[Addresses] = []
        self.took_ns = 0
        """The last `read`."""

    @property
    def nbytes(self) -> int:
        """Of all outputs that can be held."""
        if self._memory is None:
            return 0
        return sum(span * kind.itemsize for span, kind in self._sizes.values())

    @property
    def room(self) -> int:
        """How many more copies can be held."""
        return len(self._rooms)

    def expect(self, count: int = 1) -> None:
        """So many readings come next. Needs no device."""
        if self._memory is not None:
            self._in_place = [self._host_memory() for _ in range(count)]

    def _host_memory(self) -> Storages:
        return {uid: in_place(span, kind) for uid, (span, kind) in self._sizes.items()}

    def read(self) -> Storages:
        """Waits for the whole device; what the last run left."""
        begin = time.perf_counter_ns()
        self._wait()
        outputs = self._read_in_place()
        self.took_ns = time.perf_counter_ns() - begin
        return outputs

    def _read_in_place(self) -> Storages:
        addresses = self._addresses()
        if addresses is not None:
            return self._read(addresses)
        located = {} if self._locate is None else self._locate(upcoming=False)
        if located.keys() != self._sizes.keys() or any(
            isinstance(p, int) for p in located.values()
        ):
            return self._plan.download()
        self._stream.synchronize()  # an engine on the host may work in threads of its own
        return {uid: self._copied(uid, plain_array(place)) for uid, place in located.items()}

    def _copied(self, uid: int, place: Storage) -> Storage:
        copy = np.ascontiguousarray(place).reshape(-1).view(np.uint8).copy()
        size, kind = self._sizes[uid]
        return copy.view(kind) if copy.size == size * kind.itemsize else copy

    def _wait(self) -> None:
        if self._wait_for_device is not None:
            self._wait_for_device()

    def arrive(self) -> int:
        """Waits for the whole device. Outputs in the host's memory, and those that only the plan
        reaches, are read, to see how long that takes. Gives the bytes that were read."""
        self._wait()
        if self._addresses() is not None:
            return 0
        return sum(storage.nbytes for storage in self._read_in_place().values())

    def _addresses(self) -> Addresses | None:
        if self._memory is None or self._locate is None:
            return None
        located = self._locate(upcoming=False)
        addresses = {uid: at for uid, at in located.items() if isinstance(at, int)}
        return addresses if addresses.keys() == self._sizes.keys() else None

    def _read(self, addresses: Addresses) -> Storages:
        assert self._memory is not None
        self._stream.synchronize()
        outputs = self._in_place.pop() if self._in_place else self._host_memory()
        for uid, storage in outputs.items():
            if storage.nbytes:
                self._memory.copy_out(int(storage.ctypes.data), addresses[uid], storage.nbytes)
        self._stream.synchronize()
        return outputs

    def reserve(self, count: int) -> None:
        """Room on the device for so many copies; where there is not so much, for two; else for
        none, and outputs are read at once."""
        wanted = () if self._addresses() is None else sorted({count, min(count, 2)})
        for fewer in reversed(wanted):
            if self._block is None:
                with suppress(EngineError):
                    self._take(fewer)

    def _take(self, count: int) -> None:
        assert self._memory is not None
        sizes = {uid: span * kind.itemsize for uid, (span, kind) in self._sizes.items()}
        aligned = (-(-size // ALIGNMENT) * ALIGNMENT for size in sizes.values())
        begins = list(accumulate(aligned, initial=0))
        self._block = self._memory.allocate(count * begins[-1])
        for index in range(count):
            first = self._block + index * begins[-1]
            self._rooms.append({uid: first + at for uid, at in zip(sizes, begins, strict=False)})

    def hold(self) -> bool:
        """Enqueue a copy of what the last run left; False where there is no room for it."""
        addresses = self._addresses() if self._rooms else None
        if addresses is None or self._memory is None:
            return False
        room = self._rooms.pop()
        self._held.append(room)
        for uid, (span, kind) in self._sizes.items():
            if span:
                self._memory.copy(room[uid], addresses[uid], span * kind.itemsize)
        return True

    def fetch(self) -> list[Storages]:
        """Waits for the device; the copies that it holds, in order. All room is given back."""
        copies = [self._read(each) for each in self._held]
        self._give_back()
        return copies

    def close(self) -> None:
        """Give memory back."""
        self._in_place = []
        self._give_back()

    def _give_back(self) -> None:
        self._rooms, self._held = [], []
        block, self._block = self._block, None
        if block is not None and self._memory is not None:
            with suppress(EngineError):  # a device that failed keeps it until the process ends
                self._memory.free(block)


# What is kept of a round's outputs while its samples are taken; nothing is checked here.

SHARE_OF_KEEPING = 0.05
"""Of the budget: what keeping outputs may take while samples are taken; the rest is for checks."""
BYTES_EACH_ROUND = 64 * 1024**2
"""Larger inputs are compared with their copy in the first round only; where outputs are larger runs
on changed inputs are read in the first round only."""


@dataclass(frozen=True)
class Subject:
    """Whose outputs are validated, and by what."""

    case_id: str
    graph: Graph
    settings: ValidationSettings
    round_index: int
    iterations: int
    """That will be timed."""


@dataclass(frozen=True)
class ChangedRun:
    """A run on inputs that were changed in part, and what it left."""

    moves: tuple[Move, ...]
    outputs: Storages


@dataclass(frozen=True)
class LeftOutputs:
    """What the runs of one round left, as plain data, to be judged in any process."""

    case_id: str
    graph: Graph
    first: Storages
    """Of the first run; empty where nothing is going to be checked."""
    timed: tuple[tuple[int, Storages], ...]
    """Of timed iterations, in order."""
    after: Storages
    """Of one more run, on outputs that were poisoned in full."""
    replaced: Storages | None
    """The same, read once other inputs had taken the place of those; None: nobody looked."""
    elsewhere: Storages | None
    """What came of the other inputs."""
    in_part: tuple[ChangedRun, ...]
    changed_inputs: tuple[int, ...] | None
    looked: int
    """Iterations on canaries."""
    untouched: int
    """Those that left them as they were."""
    repeats: int
    spent_ns: int
    """What keeping outputs took while samples were taken."""


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
        self,
        plan: Plan,
        subject: Subject,
        first: Storages,
        canaries: Canaries,
        reader: OutputReader,
        *,
        wanted: bool,
    ) -> None:
        """`first`: what the first run left on poisoned outputs, which `reader` has just read.
        `wanted`: whether anything is going to be checked."""
        self.plan, self._reader, self.arrive = plan, reader, reader.arrive
        self.upload: Callable[[Storages], None] | None = None
        """In place of the plan's own."""
        self.restore: Callable[[], None] | None = None
        """Puts the inputs in place that outputs are checked for; None: samples run on these."""
        self.probes: Probes | None = None
        """Runs among the samples."""
        self.canaries = canaries
        self.subject = subject
        self.wanted = wanted
        self.first = first if wanted else {}
        self.kept: list[tuple[int, Storages]] = []
        """Timed iterations, in order."""
        self.after: Storages = {}
        """Of one more run, on outputs that were poisoned in full."""
        self.changed_inputs: tuple[int, ...] | None = None
        self.elsewhere: Storages | None = None
        """What came of other inputs."""
        self._replaced: Storages | None = None
        self._in_part: list[ChangedRun] = []
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
            # Room for the first and the last timed iteration, and for as many others as the budget
            # can read.
            others = max(0, subject.iterations - 2)
            affordable = self._budget_ns // max(1, reader.took_ns)
            fits = KEPT_BYTES // max(1, reader.nbytes)
            reader.reserve(2 + min(others, affordable, fits))
            if reader.room:
                self._share = (reader.room - 2) / max(1, subject.iterations - 1)

    def left(self) -> LeftOutputs:
        """Once all of it was kept."""
        return LeftOutputs(
            case_id=self.subject.case_id,
            graph=self.subject.graph,
            first=self.first,
            timed=tuple(self.kept),
            after=self.after,
            replaced=self._replaced,
            elsewhere=self.elsewhere,
            in_part=tuple(self._in_part),
            changed_inputs=self.changed_inputs,
            looked=self.canaries.looked,
            untouched=self.canaries.untouched,
            repeats=self.repeats,
            spent_ns=self.spent_ns,
        )

    def timed_check(self, iteration: int) -> bool:
        """After a timed iteration; returns whether its outputs were kept, or other runs followed.

        The first one's are, then others' at random: as many as the budget pays for.
        """
        if not self.wanted or not self._is_chosen(iteration):
            return self.probes is not None and self.probes.after_sample(iteration)
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
            self._reader.expect(len(self._held) + 1 + 2 * self.wants_other_inputs)

    @property
    def looks_at_inputs(self) -> bool:
        """Whether `run_again` compares them."""
        if not self.wanted or self.plan.abilities.changed_inputs is None:
            return False
        size = sum(tensor.bytes for tensor in self.subject.graph.inputs)
        return self.subject.round_index == 0 or size <= BYTES_EACH_ROUND

    def run_again(self, inputs: Storages) -> None:
        """What the device holds is read; runs on inputs that are changed in part, read as they are;
        one more run, on outputs that are poisoned in full; then whether the inputs are what they
        were."""
        if not self.wanted:
            return
        self.kept += zip(self._held, self._reader.fetch(), strict=True)
        self.kept.sort(key=lambda each: each[0])
        self._held = []
        if self.probes is not None and self.probes.contents is not None and self._reads_changed:
            self._run_changed(self.probes.contents)
        self._repeat()
        self.after = self._reader.read()
        changed_inputs = self.plan.abilities.changed_inputs
        if self.looks_at_inputs and changed_inputs is not None:
            changed, reports = changed_inputs(inputs), Reports(self.subject.case_id)
            self.changed_inputs = uids = reports.read("changed_inputs()", lambda: changed)
            if not inputs.keys() >= set(uids):
                raise EngineError(
                    f"{self.subject.case_id}: changed_inputs() names no input: {uids}"
                )

    @property
    def _reads_changed(self) -> bool:
        size = sum(tensor.bytes for tensor in self.subject.graph.outputs)
        return self.subject.round_index == 0 or size <= BYTES_EACH_ROUND

    def _run_changed(self, contents: Contents) -> None:
        """Nothing of the engine is called before, where it tells where its inputs lie: what it
        would do in `upload`, `poison` or `flush` is not done."""
        for share in CHANGED_SHARES:
            moves = draw_moves(contents.tensors, share, self._draw)
            contents.change(moves)
            self.plan.run()
            self._in_part.append(ChangedRun(moves, self._reader.read()))
            contents.restore()

    @property
    def wants_other_inputs(self) -> bool:
        return self.wanted and self.subject.round_index == 0

    def run_on(self, others: Storages) -> None:
        """The plan's last run. An engine that fails on other inputs of the same kind says nothing
        of those that it was timed on."""
        with suppress(EngineError):
            upload = self.plan.upload if self.upload is None else self.upload
            upload(others)
            if self.restore is None:  # else other layers ran, too
                self._replaced = self._reader.read()
            self._repeat()
            self.elsewhere = self._reader.read()


# Whether outputs follow the inputs: one run on other inputs, at the end of a case's first round.
#
# All iterations have the same inputs, so an engine that gives back what it computed before, or
# found somewhere, would look right in every one of them.

LARGEST_BYTES = 64 * 1024**2
"""Of inputs; drawing larger ones takes too long."""


def draw_other_inputs(graph: Graph, data: Data) -> Storages | None:
    """Of another seed; None where these are too large, or would be the same."""
    if sum(tensor.bytes for tensor in graph.inputs) > LARGEST_BYTES:
        return None
    try:
        others = inputs_of(graph, replace(data, seed=data.seed + 1, golden=None, cache=None))
        usual = inputs_of(graph, data)
    except BenchRunError:  # golden tensors of a graph for which no data could be drawn
        return None
    same = all(np.array_equal(_bytes(others[uid]), _bytes(usual[uid])) for uid in others)
    return None if same else others


def _bytes(storage: Storage) -> Storage:
    return np.ascontiguousarray(storage).view(np.uint8)


def find_ignored(
    left: LeftOutputs,
    data: Data,
    inputs: Callable[[], Storages],
    tolerances: Mapping[int, Tolerance],
) -> str | None:
    """Which inputs gave the outputs of the usual ones, in words; these are wrong for them."""
    usual = checksum(left.graph, left.after)
    if left.elsewhere is not None and usual == checksum(left.graph, left.elsewhere):
        others = draw_other_inputs(left.graph, data)
        if others is not None and _are_wrong(left.graph, others, left.elsewhere, tolerances):
            return "other inputs gave the same ones"
    for run in left.in_part:
        if usual == checksum(left.graph, run.outputs):
            others = moved(inputs(), run.moves)
            if _are_wrong(left.graph, others, run.outputs, tolerances):
                return "inputs that were changed in part gave the same ones"
    return None


def _are_wrong(
    graph: Graph, inputs: Storages, outputs: Storages, tolerances: Mapping[int, Tolerance]
) -> bool:
    from bench_run.worker.evaluate import compute_expected  # few outputs need it

    try:
        expected = compute_expected(graph, inputs)
    except BenchRunError:  # nobody knows
        return False
    return OutputChecker(graph, expected, tolerances, 0).check(outputs).mismatched > 0


# The outputs of one round, the first run's and, as far as the time allows, the timed ones', held
# against what is expected of them.
#
# That is done element by element in float64, unless an earlier iteration or round of the same graph
# left the very same bytes: then the result is the same.


class OutputValidator:
    """Holds what was kept against what is expected: the first run, the first and the last timed
    iteration and the run afterwards always, other iterations as far as the budget allows."""

    def __init__(
        self,
        left: LeftOutputs,
        settings: ValidationSettings,
        data: Data,
        inputs: Callable[[], Storages],
    ) -> None:
        """`data`: where inputs come from; `inputs` are asked for where the tolerances are not known
        from an earlier round."""
        self._left = left
        self._settings, self._graph = settings, left.graph
        self._checker: OutputChecker | None = None
        self._rows: list[tuple[int, int, Any, str]] = []
        self._results: list[CheckResult] = []
        self._last: CheckResult | None = None
        self._ignores_inputs: str | None = None
        self._computed_late = False
        made = make_checker(self._graph, inputs, settings)
        if made is not None:
            self._checker, known = made
            self._check(self._checker)
            known.save()
            if known.tolerances is not None:
                self._ignores_inputs = find_ignored(left, data, inputs, known.tolerances)
            if left.replaced is not None:
                replaced = checksum(self._graph, left.replaced)
                self._computed_late = replaced != checksum(self._graph, left.after)

    def _check(self, checker: OutputChecker) -> None:
        left = self._left
        self._results.append(checker.check(left.first))
        if self._settings.save_outputs is not None:
            folder = Path(self._settings.save_outputs)
            save_outputs(folder, left.case_id, left.first, self._graph)
        end_ns = time.perf_counter_ns() + round(self._settings.budget_s * 1e9) - left.spent_ns
        always = {left.timed[0][0], left.timed[-1][0]} if left.timed else set()
        for iteration, outputs in left.timed:
            if iteration in always or time.perf_counter_ns() < end_ns:
                result = checker.check(outputs)
                self._rows.append((iteration, result.mismatched, result.max_abs, result.checksum))
                self._results.append(result)
        self._last = checker.check(left.after)

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
            result = self._of_checked_runs()
        left = self._left
        changed = left.changed_inputs
        result = replace(
            result,
            reference_source=settings.source,
            iterations_poisoned=left.looked + left.repeats,
            inputs_unchanged=None if changed is None else not changed,
        )
        problems = []
        if left.untouched:
            problems.append(
                f"{left.untouched} of {left.looked} iterations wrote nothing: "
                "the outputs were still as they had been before the iteration"
            )
        if changed:
            names = ", ".join(describe(self._graph.by_uid[uid]) for uid in changed)
            problems.append(f"the engine wrote into its inputs: {names}")
        if self._ignores_inputs is not None:
            problems.append(f"the outputs do not follow the inputs: {self._ignores_inputs}")
        if self._computed_late:
            problems.append(
                "the outputs are computed when they are read: other inputs changed them, though "
                "nothing ran"
            )
        if not problems:
            return result
        also = [result.reason] if result.status == "failed" and result.reason else []
        wrong = result.iterations_mismatched + left.untouched
        return replace(
            result,
            status="failed",
            reason="; ".join([*problems, *also]),
            iterations_mismatched=wrong,
        )

    def _of_checked_runs(self) -> Validation:
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
