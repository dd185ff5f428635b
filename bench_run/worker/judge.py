"""Outputs of one round against what is expected, in a process that never loads the engine's code.

A worker leaves the outputs of the first run, of samples, and of a last run on the usual inputs in
memory that the run has made (`tensors/slots.py`). What samples are compared with is computed here,
from exactly the inputs that each ran on: nothing of it lies where an engine could find it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeVar

import msgspec
from bench_schema.document import Checks, Validation

from bench_run.errors import BenchRunError
from bench_run.graph.work import flops
from bench_run.machine.memory import free_host_bytes
from bench_run.tensors.changes import Changes
from bench_run.tensors.data import inputs_of
from bench_run.tensors.layout import describe
from bench_run.tensors.slots import Slots
from bench_run.validate.expected import make_checker, tolerances_of
from bench_run.validate.outputs import CheckResult, OutputChecker, save_outputs, validation
from bench_run.worker.evaluate import compute
from bench_run.worker.left import Left
from bench_run.worker.messages import FIRST, LAST, Judged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench_run.engines.base import Engine
    from bench_run.measure.checks import Read
    from bench_run.tensors.layout import Storages
    from bench_run.worker.messages import Judge

AFFORDABLE = 200_000_000_000
"""Operations up to which what a sample is compared with is always computed. Beyond, that is done
only if the outputs fit the usual inputs, which they seldom do by right."""
LEAST_BYTES, MOST_BYTES, SHARE_OF_MEMORY = 512 << 20, 4 << 30, 1 / 16
"""Inputs and expected outputs that a process remembers, of the free memory."""
SHARE_OF_BUDGET = 0.05
"""Part of the seconds for a round after which no further sample is compared: the last one may take
far longer, and five rounds compare five samples at least."""
SLOW_S = 0.25
"""Seconds for one sample up to which samples of each round are compared."""

ValueT = TypeVar("ValueT")


class Remembered:
    """Values of the last requests of this process, up to a size."""

    def __init__(self, most_bytes: int) -> None:
        self._values: OrderedDict[object, tuple[object, int]] = OrderedDict()
        self._most = most_bytes

    def get(self, key: object, make: Callable[[], ValueT], size: Callable[[ValueT], int]) -> ValueT:
        """Return the value of a key, made if it is not there."""
        found = self._values.pop(key, None)
        value = make() if found is None else found[0]
        self._values[key] = value, size(value)  # type: ignore[arg-type]
        while len(self._values) > 1 and sum(s for _, s in self._values.values()) > self._most:
            self._values.popitem(last=False)
        return value  # type: ignore[return-value]


_remembered = Remembered(
    min(MOST_BYTES, max(LEAST_BYTES, int(free_host_bytes() * SHARE_OF_MEMORY)))
)
_seconds: dict[str, list[float]] = {}
"""Time that the last sample of each graph took, by fingerprint."""


@dataclass
class Subject:
    """One round's outputs, and what is known of their graph."""

    request: Judge
    engine: Engine | None
    left: Left
    slots: Slots

    @property
    def inputs(self) -> Storages:
        """The usual inputs, made here: the engine's process can write to files that keep them."""
        graph, own = self.request.graph, replace(self.request.data, cache=None)
        key = "inputs", self.request.fingerprint, repr(own)
        return _remembered.get(key, lambda: inputs_of(graph, own), _bytes)

    def usual(self) -> OutputChecker | None:
        """Return the checker of outputs on the usual inputs. Raises `ChangedFileError` if what is
        expected was changed on disk."""
        request = self.request
        key = "checker", request.settings.expected, request.settings.math
        return _remembered.get(
            key,
            lambda: make_checker(request.graph, lambda: self.inputs, request.settings),
            lambda made: 0 if made is None else made.bytes,
        )


def judge(engine: Engine | None, request: Judge) -> Judged:
    """Compare the outputs. `engine`: the one that computes the reference; None for formulas."""
    slots = Slots(request.outputs_file, request.graph, request.slots, write=False)
    left = msgspec.json.decode(slots.read_report(), type=Left)
    subject = Subject(request, engine, left, slots)
    settings, graph = request.settings, request.graph
    if settings.save_outputs is not None:
        save_outputs(Path(settings.save_outputs), request.case_id, slots.slot(FIRST), graph)
    usual = subject.usual()
    if usual is None:
        reason = settings.reason or "no reference was requested"
        found = Validation("not checked", settings.reference, reason, (), 0, 0, None)
        return Judged(_with_findings(subject, found), None, None)
    first = usual.check(slots.slot(FIRST))
    last = [usual.check(slots.slot(LAST))] if left.repeats else []
    samples = _samples(subject, usual)
    found = _verdict(subject, first, last, samples)
    rows = [
        (r.iteration, s.mismatched, s.max_abs, s.checksum) for r, s in samples if r.iteration >= 0
    ]
    checks = Checks(*(tuple(zip(*rows, strict=True)) or ((), (), (), ())))
    return Judged(_with_findings(subject, found), checks, (last or [first])[0].checksum)


def _samples(subject: Subject, usual: OutputChecker) -> list[tuple[Read, CheckResult]]:
    """Check the outputs of samples, in an order that is drawn: of one always, of others while a
    part of the budget lasts."""
    request = subject.request
    results: list[tuple[Read, CheckResult]] = []
    is_cheap = (flops(request.graph) or 0) <= AFFORDABLE
    took = _seconds.setdefault(request.fingerprint, [0.0])
    if not request.samples or not _is_due(request, took[0]):
        return []
    end_ns = time.perf_counter_ns() + round(request.settings.budget_s * 1e9 * SHARE_OF_BUDGET)
    lots = Random(f"{request.secret} order")  # noqa: S311 - repeatable
    for read in lots.sample(subject.left.reads, len(subject.left.reads)):
        if results and time.perf_counter_ns() > end_ns:
            break
        outputs = subject.slots.slot(read.slot)
        if not any(read.changes):
            results.append((read, usual.check(outputs)))
            continue
        if not is_cheap and usual.check(outputs).mismatched:
            continue
        begin = time.perf_counter()
        changes = Changes(request.graph, request.secret, subject.left.uids)
        inputs = changes.apply(subject.inputs, read.changes)
        try:
            expected = compute(subject.engine, request.graph, inputs)
        except BenchRunError:  # golden outputs of what no formula computes
            continue
        result = usual.against(expected).check(outputs)
        if result.mismatched:  # other values may allow more
            limits = tolerances_of(request.graph, inputs, request.settings, expected)
            result = usual.against(expected, limits).check(outputs)
        results.append((read, result))
        took[0] = time.perf_counter() - begin
    return sorted(results, key=lambda each: each[0].iteration)


def _is_due(request: Judge, took_s: float) -> bool:
    """Return True if samples of this round are compared: of a reference that takes longer than
    `SLOW_S` the first round's, and others by lot."""
    lot = Random(f"{request.secret} rounds").random()  # noqa: S311 - repeatable
    return request.round_index == 0 or lot * took_s <= SLOW_S


def _verdict(
    subject: Subject,
    first: CheckResult,
    last: Sequence[CheckResult],
    samples: Sequence[tuple[Read, CheckResult]],
) -> Validation:
    """Return the verdict over all runs; say so where the usual inputs gave what is right and
    others did not."""
    reference, graph = subject.request.settings.reference, subject.request.graph
    found = validation(reference, graph, [first, *last, *(result for _, result in samples)])
    same = first.checksum == last[0].checksum if last else None
    found = replace(found, deterministic=same)
    wrong = [result for read, result in samples if result.mismatched and any(read.changes)]
    if not wrong or any(result.mismatched for result in (first, *last)):
        return found
    worst = validation(reference, graph, wrong[:1])
    reason = (
        "the outputs do not follow the inputs: right on the usual ones, wrong in "
        f"{len(wrong)} of {len(samples)} samples, each on inputs of its own: {worst.reason}"
    )
    return replace(found, reason=reason)


def _with_findings(subject: Subject, found: Validation) -> Validation:
    """Return the verdict with what canaries and a look at the inputs showed."""
    left = subject.left
    changed = left.changed_inputs
    found = replace(
        found,
        reference_source=subject.request.settings.source,
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
        names = ", ".join(describe(subject.request.graph.by_uid[uid]) for uid in changed)
        problems.append(f"the engine wrote into its inputs: {names}")
    if not problems:
        return found
    also = [found.reason] if found.status == "failed" and found.reason else []
    return replace(
        found,
        status="failed",
        reason="; ".join([*problems, *also]),
        iterations_mismatched=found.iterations_mismatched + left.untouched,
    )


def _bytes(storages: Storages) -> int:
    return sum(storage.nbytes for storage in storages.values())
