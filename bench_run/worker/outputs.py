"""Outputs of a plan: read, kept while samples are taken, and judged."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bench_schema.document import Checks, Validation

from bench_run.engines.arrange import MOST_COPIES
from bench_run.engines.reported import converted
from bench_run.errors import BenchRunError, EngineError
from bench_run.graph.dtypes import array_type
from bench_run.tensors.host_memory import in_place
from bench_run.tensors.layout import describe, plain_array, storage_size
from bench_run.tensors.rotation import input_sets
from bench_run.validate.expected import make_checker
from bench_run.validate.outputs import CheckResult, OutputChecker, save_outputs, validation
from bench_run.validate.settings import KEPT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.engines.base import Plan
    from bench_run.graph.model import Graph
    from bench_run.measure.canaries import Canaries
    from bench_run.measure.loop import RunLikeSample
    from bench_run.measure.rotation import Rotation
    from bench_run.streams.base import Stream
    from bench_run.tensors.data import Data
    from bench_run.tensors.layout import Storage, Storages
    from bench_run.validate.settings import ValidationSettings

    Addresses = Mapping[int, int]
    """Addresses by uid."""


# What a plan left in its outputs, read as fast as the device gives it.
#
# A measuring worker holds the device alone, and no other can use it. Reading outputs takes
# longer than measuring: so copies of them stay on the device until others may use it too, and the
# host's memory that they are read into is in place before.

ALIGNMENT = 256
"""Alignment of each output in a copy."""


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
        """Number of bytes of all outputs that can be held."""
        if self._memory is None:
            return 0
        return sum(span * kind.itemsize for span, kind in self._sizes.values())

    @property
    def room(self) -> int:
        """Return the number of further copies that can be held."""
        return len(self._rooms)

    def expect(self, count: int = 1) -> None:
        """Prepare for `count` readings. Does not need the device."""
        if self._memory is not None:
            self._in_place = [self._host_memory() for _ in range(count)]

    def _host_memory(self) -> Storages:
        return {uid: in_place(span, kind) for uid, (span, kind) in self._sizes.items()}

    def read(self) -> Storages:
        """Wait for the whole device; return the outputs of the last run."""
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
        """Wait for the whole device. Outputs in the host's memory, and those that only the plan
        reaches, are read, to time it. Returns the number of bytes read."""
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
        """Reserve device memory for `count` copies; fall back to two, then to none, with outputs
        read at once."""
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
        """Enqueue a copy of the last run's outputs; return False without room for it."""
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
        """Wait for the device; return its copies, in order, and free all room."""
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


SHARE_OF_KEEPING = 0.05
"""Share of the budget for keeping outputs while samples are taken; the rest is for checks."""
SAMPLES_EACH = 8
"""Samples for each iteration on another set: it takes two runs. What does not come up in one round
does in the next."""
MOST_SETS = 2
"""Such iterations in a round at most, besides the first one: what each leaves has to be checked."""
BYTES_EACH_ROUND = 64 * 1024**2
"""Larger inputs are compared with their copy in the first round only."""


@dataclass(frozen=True)
class Subject:
    """Outputs to validate, and the reference for them."""

    case_id: str
    graph: Graph
    settings: ValidationSettings
    round_index: int


@dataclass(frozen=True)
class Kept:
    """Outputs that an iteration left."""

    iteration: int
    """The sample before it; -1 where these are by the device's clock."""
    index: int
    """Number of the set of inputs that it ran on."""
    outputs: Storages


@dataclass(frozen=True)
class LeftOutputs:
    """Outputs of one round's runs, as plain data, to be judged in any process."""

    case_id: str
    graph: Graph
    first: Storages
    """Outputs of the first run; empty if nothing is going to be checked or saved."""
    kept: tuple[Kept, ...]
    """Outputs of iterations, in order."""
    changed_inputs: tuple[int, ...] | None
    looked: int
    """Iterations on canaries."""
    untouched: int
    """Iterations that left the canaries unchanged."""
    repeats: int
    """Iterations on poisoned outputs, after the first run."""


class OutputKeeper:
    """Keeps what a plan leaves while it is measured: outputs of the first run, and of iterations
    that run on another set of inputs among the samples.

    Such an iteration is called exactly as a sample is. Once it is over yet another set takes the
    place of its inputs, and only then its outputs are read: what an engine leaves for later comes
    out wrong. If there is one set only, the outputs are poisoned instead. Checks come later:
    neither a sample nor another worker waits for them. Where the device can hold copies, they are
    read once it is not held alone any more (`finish`).
    """

    def __init__(
        self,
        plan: Plan,
        subject: Subject,
        first: Storages,
        canaries: Canaries,
        reader: OutputReader,
        rotation: Rotation | None,
        restore: Callable[[], None] | None = None,
        executions: int = 1,
    ) -> None:
        """`first`: what the first run left on poisoned outputs, which `reader` has just read.
        `rotation`: None if nothing is going to be checked. `restore` puts the inputs in place that
        outputs are checked for; None: samples run on these."""
        self.plan, self._reader, self.arrive = plan, reader, reader.arrive
        self.canaries, self.subject = canaries, subject
        self._rotation, self._restore = rotation, restore
        self.wanted = rotation is not None
        is_saved = subject.settings.save_outputs is not None
        self.first = first if self.wanted or is_saved else {}
        self.kept: list[Kept] = []
        self.changed_inputs: tuple[int, ...] | None = None
        self.repeats = 0
        self.spent_ns = 0
        """Time for keeping outputs while samples were taken."""
        self._budget_ns = round(subject.settings.budget_s * 1e9 * SHARE_OF_KEEPING)
        self._draw = random.Random(f"{subject.case_id} {subject.round_index}")  # noqa: S311
        self._kept_bytes = 0
        self._held: list[tuple[int, int]] = []
        """Iteration and set of each copy that the device holds, in order."""
        others = [] if rotation is None else list(range(1, rotation.count))
        by = subject.round_index % max(1, len(others))
        self._upcoming = others[by:] + others[:by]
        """Other sets, in the order in which they come up."""
        self._due = {0}
        """Samples after which another set comes up."""
        self._executions = executions
        self._copies: list[Mapping[int, Storage | int]] = []
        """Places of the inputs of each copy of the buffers, in the order of their turns."""
        self._block: tuple[Mapping[int, Storage | int], int] | None = None
        self._takes_turns = False
        """True if copies of the buffers take turns: a run moves on to the next one."""
        self._has_block = False
        """True once outputs of a block were kept; of one in each round they are."""
        if self.wanted:
            affordable = self._budget_ns // max(1, reader.took_ns)
            fits = KEPT_BYTES // max(1, reader.nbytes)
            reader.reserve(3 + min(MOST_SETS, affordable, fits))

    def plan_samples(self, count: int) -> None:
        """Draw the samples after which another set comes up, of so many."""
        among = range(1, max(1, count - 1))
        more = max(0, min(MOST_SETS, count // SAMPLES_EACH - 1))
        self._due = {0, *self._draw.sample(among, min(len(among), more))}

    def left(self) -> LeftOutputs:
        """Return the outputs, once all of them are stored."""
        return LeftOutputs(
            case_id=self.subject.case_id,
            graph=self.subject.graph,
            first=self.first,
            kept=tuple(self.kept),
            changed_inputs=self.changed_inputs,
            looked=self.canaries.looked,
            untouched=self.canaries.untouched,
            repeats=self.repeats,
        )

    def after_sample(self, index: int, run: RunLikeSample) -> bool:
        """Run one more iteration on another set, after the first sample and after some at random.
        Return True if it did, which disturbs the caches."""
        if index > 0 and not self._is_due(index):
            return False
        return self._check(index, run, is_last=False)

    def after_last(self, index: int, run: RunLikeSample) -> None:
        """Run one more iteration on the usual inputs."""
        if index == 0:
            self._check(index, run, is_last=False)
        self._check(index, run, is_last=True)

    def _check(self, index: int, run: RunLikeSample, *, is_last: bool) -> bool:
        if self._rotation is None:
            return False
        begin = time.perf_counter_ns()
        self.canaries.restore()
        if self._restore is not None or self._rotation.count == 1:
            self._repeat(index)
        elif is_last:
            self._run_on_usual(index, run)
        else:
            self._run_on(self._next(), index, run)
        self.spent_ns += time.perf_counter_ns() - begin
        return True

    def _read_last(self, rotation: Rotation) -> Mapping[int, Storage | int]:
        """Return where the last execution of the next sample reads its inputs: of several, where
        copies of the buffers take turns, another copy than the first."""
        first = rotation.find()
        if self._executions == 1:
            return first
        if not self._copies:
            self._copies.append(first)
            for _ in range(MOST_COPIES):
                self.plan.run()
                places = rotation.find()
                if _are_same(places, first):
                    break
                self._copies.append(places)
        turn = next((i for i, each in enumerate(self._copies) if _are_same(each, first)), None)
        if turn is None:  # an engine whose inputs lie elsewhere each time
            return first
        return self._copies[(turn + self._executions - 1) % len(self._copies)]

    def _is_due(self, index: int) -> bool:
        fits = self.spent_ns < self._budget_ns and self._kept_bytes < KEPT_BYTES
        return index in self._due and fits and (not self._held or self._reader.room > 1)

    def _next(self) -> int:
        self._upcoming.append(self._upcoming.pop(0))
        return self._upcoming[-1]

    def _run_on(self, target: int, index: int, run: RunLikeSample) -> None:
        rotation = self._rotation
        assert rotation is not None
        places = self._read_last(rotation)
        run(_nothing, lambda: rotation.write(places, target))
        rotation.write(places, self._other(target))
        self._keep(index, target)
        rotation.write(places, 0)

    def _run_on_usual(self, index: int, run: RunLikeSample) -> None:
        """Run on the usual inputs right after a run on another set."""
        rotation = self._rotation
        assert rotation is not None
        places = rotation.find()
        rotation.write(places, self._other(0))
        self.plan.run()
        rotation.write(places, 0)
        self._run_on(0, index, run)

    def _other(self, target: int) -> int:
        assert self._rotation is not None
        others = [index for index in range(self._rotation.count) if index != target]
        return self._draw.choice(others)

    def before_block(self) -> None:
        if self._rotation is None or self._restore is not None or self._rotation.count == 1:
            return
        self._block = places, target = self._rotation.find(), self._next()
        self._rotation.write(places, target)
        self.plan.run()
        self._takes_turns = not _are_same(places, self._rotation.find())

    def after_block(self) -> None:
        """Keep the outputs of the block, but not where copies of the buffers take turns: there
        another one ran last."""
        if self._block is None or self._rotation is None:
            return
        places, target = self._block
        self._block = None
        if not self._takes_turns and not self._has_block and self._reader.room:
            self._has_block = True
            self._rotation.write(places, self._other(target))
            self._keep(-1, target)
        self._rotation.write(places, 0)
        self.plan.run()

    def _keep(self, iteration: int, index: int) -> None:
        if self._reader.hold():
            self._held.append((iteration, index))
            return
        outputs = self._reader.read()
        self.kept.append(Kept(iteration, index, outputs))
        self._kept_bytes += sum(storage.nbytes for storage in outputs.values())

    def _repeat(self, index: int) -> None:
        """Run once more on the usual inputs, with nothing of the run before left in the outputs."""
        self.repeats += 1
        if self._restore is not None:
            self._restore()
        self.plan.poison()
        self.plan.run()
        self._keep(index, 0)

    def expect(self) -> None:
        """Allocate the host memory for `finish`."""
        if self.wanted:
            self._reader.expect(len(self._held))

    @property
    def looks_at_inputs(self) -> bool:
        """Tell whether `finish` compares them."""
        if not self.wanted or self.plan.abilities.changed_inputs is None:
            return False
        size = sum(tensor.bytes for tensor in self.subject.graph.inputs)
        return self.subject.round_index == 0 or size <= BYTES_EACH_ROUND

    def finish(self, inputs: Storages) -> None:
        """Read what the device holds; then find whether the inputs are what they were."""
        if not self.wanted:
            return
        held = zip(self._held, self._reader.fetch(), strict=True)
        self.kept += [Kept(*place, outputs) for place, outputs in held]
        self._held = []
        changed_inputs = self.plan.abilities.changed_inputs
        if self.looks_at_inputs and changed_inputs is not None:
            if self._restore is not None:
                self._restore()
            changed, kind = changed_inputs(inputs), tuple[int, ...]
            uids = converted(self.subject.case_id, "changed_inputs()", changed, kind)
            self.changed_inputs = uids
            if not inputs.keys() >= set(uids):
                raise EngineError(
                    f"{self.subject.case_id}: changed_inputs() names no input: {uids}"
                )


def _nothing() -> None:
    return None


def _are_same(places: Mapping[int, Storage | int], others: Mapping[int, Storage | int]) -> bool:
    """Return True if both are the same memory: addresses of a device, or arrays of the host."""
    return all(_address(place) == _address(others[uid]) for uid, place in places.items())


def _address(place: Storage | int) -> int:
    return place if isinstance(place, int) else int(place.ctypes.data)


# The outputs of one round, the first run's and those that were kept, held against what is expected
# of them on the inputs that each of them had.
#
# That is done element by element in float64, unless an earlier iteration or round of the same graph
# left the very same bytes: then the result is the same.


class OutputValidator:
    """Holds what was kept against what is expected: the first run and the last iteration on each
    set always, others as far as the budget allows."""

    def __init__(
        self,
        left: LeftOutputs,
        settings: ValidationSettings,
        data: Data,
        inputs: Callable[[], Storages],
    ) -> None:
        """Prepare the judgement. `data`: source of the inputs; `inputs` are requested if the
        tolerances are not known from an earlier round."""
        self._left, self._settings, self._graph = left, settings, left.graph
        self._results: list[tuple[int, int, CheckResult]] = []
        """Iteration, set and result."""
        self._sets: tuple[Storages, ...] = ()
        self._inputs, self._data = inputs, data
        self._is_checked = self._check()

    def _check(self) -> bool:
        """Check all that was kept; returns whether anything is expected."""
        left, graph, settings = self._left, self._graph, self._settings
        if settings.save_outputs is not None:
            save_outputs(Path(settings.save_outputs), left.case_id, left.first, graph)
        usual = make_checker(graph, self._inputs, settings)
        if usual is None:
            return False
        self._results.append((-1, 0, usual[0].check(left.first)))
        end_ns = time.perf_counter_ns() + round(settings.budget_s * 1e9)
        last = {each.index: each for each in left.kept}
        for index in sorted(last):
            made = (
                usual if index == 0 else make_checker(graph, self._of_set(index), settings, index)
            )
            if made is None:
                self._check_unknown(last[index], usual[0])
                continue
            checker, known = made
            for each in left.kept:
                is_due = each is last[index] or time.perf_counter_ns() < end_ns
                if each.index == index and is_due:
                    self._results.append((each.iteration, index, checker.check(each.outputs)))
            known.save()
        usual[1].save()
        return True

    def _check_unknown(self, kept: Kept, usual: OutputChecker) -> None:
        """Check a set without a reference: it is computed only where the outputs are right for the
        usual inputs, which they seldom are by right."""
        if usual.check(kept.outputs).mismatched:
            return
        from bench_run.worker.evaluate import compute_expected  # few outputs need it

        with suppress(BenchRunError):  # unknown
            expected = compute_expected(self._graph, self._of_set(kept.index)())
            result = usual.against(expected).check(kept.outputs)
            self._results.append((kept.iteration, kept.index, result))

    def _of_set(self, index: int) -> Callable[[], Storages]:
        def made() -> Storages:
            if not self._sets:
                self._sets = input_sets(self._graph, self._data, self._inputs())
            return self._sets[index]

        return made

    def checks(self) -> Checks | None:
        """Return those of iterations on the usual inputs; equal sums are equal results."""
        if not self._is_checked:
            return None
        rows = [
            (iteration, result.mismatched, result.max_abs, result.checksum)
            for iteration, index, result in self._results[1:]
            if index == 0 and iteration >= 0
        ]
        return Checks(*(tuple(zip(*rows, strict=True)) or ((), (), (), ())))

    def validation(self) -> Validation:
        settings, left = self._settings, self._left
        if not self._is_checked:
            reason = settings.reason or "no reference was requested"
            result = Validation("not checked", settings.reference, reason, (), 0, 0, None)
        else:
            result = self._of_checked_runs()
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
        """Say so where the usual inputs gave what is right and others did not."""
        reference, graph = self._settings.reference, self._graph
        results = [result for _, _, result in self._results]
        found = validation(reference, graph, results)
        sums: dict[int, list[str]] = {}
        for _, index, result in self._results:
            sums.setdefault(index, []).append(result.checksum)
        repeated = [each for each in sums.values() if len(each) > 1]
        same = all(len(set(each)) == 1 for each in repeated) if repeated else None
        found = replace(found, deterministic=same)
        wrong = {index: result for _, index, result in self._results if result.mismatched}
        if not wrong or 0 in wrong:
            return found
        worst = validation(reference, graph, [next(iter(wrong.values()))])
        reason = (
            "the outputs do not follow the inputs: right on the usual ones, wrong on "
            f"{len(wrong)} of {len(sums) - 1} other sets: {worst.reason}"
        )
        return replace(found, reason=reason)
