"""Outcomes of a case, compared between the sides as counts of documents.

A side may have several documents, and a case may be missing, broken or wrong in some of them only.
Each kind of trouble is a share of documents; it is news if the shares differ, and each kind that
got worse is reported.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from bench_schema.estimate import time_series
from bench_schema.identity import engine_name

from bench_compare.comparison.circumstances.facts import facts
from bench_compare.metrics import GATES
from bench_compare.model import Change, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench_schema.document import Case, Validation

    from bench_compare.model import CaseSide


T = TypeVar("T")

ERROR_GROWTH = 1000.0
"""An error that grew by this factor is news even within its tolerance."""
ERROR_FLOOR = 1e-3
"""Share of the tolerance that smaller errors are raised to."""
LOOSER = 2.0
"""A tolerance that follows the data moves by less than this between seeds."""
FEWER = 2.0
"""Ratio of checked iterations that counts as fewer. The number depends on the available time, which
changes by less than this between runs of one build."""


class Checked(NamedTuple):
    """The weakest check of an output among the documents of a side."""

    elements: tuple[int, ...]
    """Number in each document that checks it."""
    rtol: float
    atol: float
    error: float
    """Largest, raised to `ERROR_FLOOR` of the tolerance."""


def weaker_checks(base: Sequence[Case], other: Sequence[Case]) -> Iterator[str]:
    """Yield a sentence for each way in which outputs that passed are checked less, or are less
    exact; both are cases of one graph, one for each document."""
    passed = [[found for case in side if (found := _passed(case))] for side in (base, other)]
    if not all(passed):
        return
    before, after = map(_outputs, passed)
    for name, one in before.items():
        two = after.get(name)
        checks = [len(one.elements), 0 if two is None else len(two.elements)]
        if checks[1] * len(passed[0]) < checks[0] * len(passed[1]):
            yield f"output {name} is no longer checked"
        if two is None:
            continue
        whole = max(one.elements)
        if _share(one.elements, two.elements, lambda n: n < whole).worse:  # noqa: B023
            yield f"not all elements of output {name} are checked any more"
        for kind, least, most in (("rtol", one.rtol, two.rtol), ("atol", one.atol, two.atol)):
            if most > LOOSER * least:
                yield f"the {kind} of {name} grew from {least:.2g} to {most:.2g}"
        if two.error > 0 and two.error >= ERROR_GROWTH * one.error:
            grew = f"grew from {one.error:.2g} to {two.error:.2g} within its tolerance"
            yield f"the error of {name} {grew}"
    often = max(one.iterations_checked for one in passed[0])
    least = min(one.iterations_checked for one in passed[1])
    share = max(map(_checked_share, base))
    if least * FEWER <= often and _share(base, other, lambda c: _seldom(c, often, share)).worse:
        yield f"iterations checked: {least}, were {often}"


def _passed(case: Case) -> Validation | None:
    """Return the validation of outputs that passed, with their method; another tool's may leave out
    its tolerance (NaN)."""
    found = case.validation
    if found is None or found.status != "passed":
        return None
    return None if any(math.isnan(output.rtol) for output in found.outputs) else found


def _outputs(passed: Sequence[Validation]) -> dict[str, Checked]:
    """Return the weakest check of each output."""
    found: dict[str, Checked] = {}
    for output in (output for one in passed for output in one.outputs):
        error = float(output.max_abs)
        error = max(math.inf if math.isnan(error) else error, ERROR_FLOOR * output.atol)
        now = Checked((output.elements,), output.rtol, output.atol, error)
        old = found.get(output.name)
        if old is not None:
            most = (max(a, b) for a, b in zip(old[1:], now[1:], strict=True))
            now = Checked((*old.elements, output.elements), *most)
        found[output.name] = now
    return found


def _seldom(case: Case, often: int, share: float) -> bool:
    """Return True if far fewer iterations were checked, and a far smaller share of them."""
    found = case.validation
    if found is None or found.status != "passed" or often == 0:
        return False
    if found.iterations_checked * FEWER > often:
        return False
    return found.iterations_checked == 0 or _checked_share(case) * FEWER <= share


def _checked_share(case: Case) -> float:
    """Return the share of timed iterations that were checked; 0 if outputs did not pass."""
    name, found = time_series(case), case.validation
    if name is None or found is None or found.status != "passed":
        return 0.0
    timed = sum(one.series[name].size for one in case.rounds if name in one.series)
    if not case.rounds:
        timed = case.summary[name].count
    return found.iterations_checked / max(timed, 1)


MEASURED_FIRST = "device_ns"
"""The series that decides if it is there."""


class Share(NamedTuple):
    """A number of documents of each side, and of how many."""

    base: int
    of_base: int
    other: int
    of_other: int

    @property
    def worse(self) -> bool:
        return self.other * self.of_base > self.base * self.of_other

    @property
    def better(self) -> bool:
        return self.other * self.of_base < self.base * self.of_other

    @property
    def text(self) -> str:
        """Nothing where each side has one document: the sentence says it already."""
        if max(self.of_base, self.of_other) == 1:
            return ""
        return (
            f" (in {self.other} of {self.of_other} documents of other, "
            f"{self.base} of {self.of_base} of base)"
        )


def changes(
    base: CaseSide | None, other: CaseSide | None, *, awaited: bool = False
) -> tuple[Change, ...]:
    """Return changes of a case's outcome, worst first; empty if both sides have the same.
    `awaited`: the run of the side without the case has not ended."""
    if base is None or other is None:
        return tuple(_one_sided(base, other, awaited))
    found: list[Change] = []
    if not (_sound(base) and _sound(other)):
        found += [*_completion(base, other), *_validation(base, other)]
        held = len(base.cases), len(other.cases)
        missing = Share(
            base.missing, base.missing + held[0], other.missing, other.missing + held[1]
        )
        if missing.worse or missing.better:
            verdict = Verdict.REMOVED if missing.worse else Verdict.ADDED
            found.append(Change(verdict, f"missing{missing.text}"))
    same_engine = engine_name(base.engine).spec == engine_name(other.engine).spec
    ran = [[case for case in side.cases if _completed(case)] for side in (base, other)]
    losses = LOSSES if same_engine else LOSSES_OF_ANY
    for holds, sentence in losses if all(ran) else ():
        if all(map(holds, ran[1])):
            continue
        had, has = ([holds(case) for case in cases] for cases in ran)
        share = Share(had.count(False), len(had), has.count(False), len(has))
        if share.worse and any(had):
            found.append(Change(Verdict.LOST, f"{sentence}{share.text}"))
    if same_engine:
        found += [Change(Verdict.LOST, text) for text in weaker_checks(base.cases, other.cases)]
    return tuple(sorted(found, key=lambda change: ORDER.index(change.verdict)))


def _sound(side: CaseSide) -> bool:
    """Return True if no document of the side misses, breaks or fails the case: nearly all cases."""
    return side.missing == 0 and not any(not _completed(case) or wrong(case) for case in side.cases)


ORDER = (
    Verdict.BROKEN,
    Verdict.NEWLY_WRONG,
    Verdict.WRONG,
    Verdict.REMOVED,
    Verdict.NEWLY_UNSUPPORTED,
    Verdict.LOST,
    Verdict.UNMEASURED,
    Verdict.FIXED,
    Verdict.ADDED,
)


def completed(side: CaseSide) -> bool:
    """Return True if every document of the side with the case completed it."""
    return all(_completed(case) for case in side.cases)


def _completed(case: Case) -> bool:
    return case.outcome.status == "completed"


def _broken(case: Case) -> bool:
    return case.outcome.status not in ("completed", "unsupported")


def _stopped(case: Case) -> bool:
    """Return True if the case failed, and was not refused or left out."""
    return case.outcome.status not in ("completed", "unsupported", "skipped")


def _share(base: Sequence[T], other: Sequence[T], holds: Callable[[T], object]) -> Share:
    counts = [sum(map(bool, map(holds, side))) for side in (base, other)]
    return Share(counts[0], len(base), counts[1], len(other))


def ended(side: CaseSide, holds: Callable[[Case], bool] = lambda case: not _completed(case)) -> str:
    """Return a phrase on the end of a case that did not complete."""
    outcome = next(c.outcome for c in side.cases if holds(c))
    return f"{outcome.status}: {outcome.reason}" if outcome.reason else outcome.status


def _one_sided(base: CaseSide | None, other: CaseSide | None, awaited: bool) -> Iterator[Change]:
    """Yield trouble of a case on one side: a broken or wrong case is news without a base as
    well."""
    side = other if base is None else base
    assert side is not None, "a case belongs to one side at least"
    verdict, where = (
        (Verdict.ADDED, "only in other") if base is None else (Verdict.REMOVED, "only in base")
    )
    if base is None:
        yield from faults(side, where)
    if awaited:
        verdict, where = Verdict.UNMEASURED, f"{where}: not measured yet, the run has not ended"
    text = where if completed(side) else f"{where}, where it is {ended(side)}"
    yield Change(verdict, text)


def faults(other: CaseSide, where: str) -> Iterator[Change]:
    """Yield bad news of a case without a base; `where` begins the sentence."""
    if any(map(_stopped, other.cases)):
        yield Change(Verdict.BROKEN, f"{where}: {ended(other, _stopped)}")
    if any(map(wrong, other.cases)):
        yield Change(Verdict.WRONG, f"{where}: {complaint(other.cases)}")


def _completion(base: CaseSide, other: CaseSide) -> Iterator[Change]:
    incomplete = _share(base.cases, other.cases, lambda case: not _completed(case))
    broken = _share(base.cases, other.cases, _broken)
    stopped = _share(base.cases, other.cases, _stopped)
    none = incomplete.base == incomplete.of_base and incomplete.other == incomplete.of_other
    if none and stopped.worse:
        text = f"other {ended(other, _stopped)}{stopped.text}"
        yield Change(Verdict.BROKEN, f"{text}; base {ended(base)}")
    elif none:
        yield Change(Verdict.UNMEASURED, f"base {ended(base)}; other {ended(other)}")
    elif broken.worse and not incomplete.better:
        yield Change(Verdict.BROKEN, f"other {ended(other, _broken)}{broken.text}")
    elif incomplete.worse:
        yield Change(Verdict.NEWLY_UNSUPPORTED, f"other {ended(other)}{incomplete.text}")
    elif incomplete.better:
        # What another engine cannot run was never broken.
        same = engine_name(base.engine).family == engine_name(other.engine).family
        verdict = Verdict.FIXED if same else Verdict.ADDED
        yield Change(verdict, f"base {ended(base)}{incomplete.text}")


def wrong(case: Case) -> bool:
    """Return True if outputs are wrong in any iteration, inputs were changed, or the time is one
    that no machine of this kind reaches. A recorded mismatch counts whatever the status."""
    if case.implausible is not None or facts(case.rounds).mismatched:
        return True
    found = case.validation
    if found is None:
        return False
    return found.status == "failed" or found.inputs_unchanged is False or _strays(found)


def _strays(found: Validation) -> bool:
    return found.iterations_mismatched > 0 or any(one.mismatched > 0 for one in found.outputs)


def _validation(base: CaseSide, other: CaseSide) -> Iterator[Change]:
    share = _share(base.cases, other.cases, wrong)
    if share.worse:
        yield Change(Verdict.NEWLY_WRONG, f"{complaint(other.cases)}{share.text}")
    elif share.other:
        yield Change(Verdict.WRONG, f"wrong on both sides: {complaint(other.cases)}{share.text}")
    elif share.better and all(checked(case) for case in other.cases if _completed(case)):
        yield Change(Verdict.FIXED, f"outputs are right now{share.text}")


def complaint(cases: Sequence[Case]) -> str:
    """Return a phrase on the wrong outputs of cases."""
    failed = [c.validation for c in cases if c.validation is not None]
    strayed = [c for c in cases if c.validation is not None and _strays(c.validation)]
    strayed += [case for case in cases if facts(case.rounds).mismatched]
    sentence = next((v.reason for v in failed if v.status == "failed" and v.reason), None)
    implausible = next((c.implausible for c in cases if c.implausible is not None), None)
    if sentence is None and implausible is not None:
        return f"implausible: {implausible}"
    if sentence is None and any(v.inputs_unchanged is False for v in failed):
        return "its inputs are changed"
    if sentence is not None:
        return sentence
    passed = any(c.validation is not None and c.validation.status == "passed" for c in strayed)
    text = "outputs are outside of the tolerance"
    return f"{text}, though they are said to have passed" if passed else text


def checked(case: Case) -> bool:
    """Return True if the outputs were compared with a reference."""
    return case.validation is not None and case.validation.status != "not checked"


def may_be_checked(case: Case) -> bool:
    """Return True if the outputs were compared with a reference, or another tool does not say."""
    return checked(case) or (case.validation is None and "imported" in case.notes)


Losses: TypeAlias = "tuple[tuple[Callable[[Case], bool], str], ...]"


def is_deterministic(case: Case) -> bool:
    return case.validation is None or case.validation.deterministic is not False


def is_on_device(case: Case) -> bool:
    if not case.rounds:
        return MEASURED_FIRST in case.summary
    return MEASURED_FIRST in facts(case.rounds).series


def is_sampled(case: Case) -> bool:
    """Return True if a time that can decide was measured; 0 is none."""
    if not case.rounds:
        return any(name in case.summary and case.summary[name].median > 0 for name in GATES)
    return not facts(case.rounds).sampled.isdisjoint(GATES)


def is_on_fresh_outputs(case: Case) -> bool:
    """Return False if checked iterations are known to have run on outputs of earlier ones."""
    return case.validation is None or case.validation.iterations_poisoned != 0


LOSSES_OF_ANY: Losses = (
    (is_sampled, "no time is measured"),
    (may_be_checked, "outputs are no longer checked"),
)
"""Properties that any completed case may lose, each with the sentence for it."""
LOSSES: Losses = (
    *LOSSES_OF_ANY,
    (is_on_fresh_outputs, "results of earlier iterations could pass for those of checked ones"),
    (is_deterministic, "iterations give different bytes, which they did not in base"),
    (is_on_device, "device time is no longer measured, only end-to-end time"),
)
"""The same of the cases of one engine."""
