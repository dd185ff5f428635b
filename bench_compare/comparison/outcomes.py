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

    from bench_schema.document import Case, OutputValidation, Validation

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


def weaker_checks(base: Sequence[Case], other: Sequence[Case]) -> Iterator[str]:
    """Yield a sentence for each way in which outputs that passed are checked less, or are less
    exact; both are cases of one graph, one for each document."""
    before, after = map(_passed, (base, other))
    if len(before) == len(after) == 1 and _as_strict(before[0], after[0]):
        return
    if before and after:
        yield from _unchecked(before, after)
        yield from _fewer(base, other)
        yield from _looser(before, after)
        yield from _grown(before, after)


def _passed(cases: Sequence[Case]) -> list[Validation]:
    """Return validations that passed, with their method; another tool's may leave out its tolerance
    (NaN)."""
    return [
        one
        for case in cases
        if (one := case.validation) is not None
        and one.status == "passed"
        and not any(math.isnan(output.rtol) for output in one.outputs)
    ]


def _as_strict(base: Validation, other: Validation) -> bool:
    """Return True if each output is certainly checked as before. A fast answer for nearly all
    cases."""
    return (
        len(base.outputs) == len(other.outputs)
        and base.iterations_checked <= other.iterations_checked
        and all(
            one.name == two.name
            and two.elements >= one.elements
            and two.rtol <= LOOSER * one.rtol
            and two.atol <= LOOSER * one.atol
            and _least_error(two) < ERROR_GROWTH * _least_error(one)
            for one, two in zip(base.outputs, other.outputs, strict=True)
        )
    )


def _unchecked(base: Sequence[Validation], other: Sequence[Validation]) -> Iterator[str]:
    """Yield outputs that a larger share of the documents leaves out."""
    names = [[{output.name for output in one.outputs} for one in side] for side in (base, other)]
    for name in sorted(set().union(*names[0])):
        before, after = (sum(name not in held for held in side) for side in names)
        if after * len(base) > before * len(other):
            yield f"output {name} is no longer checked"


def _fewer(base: Sequence[Case], other: Sequence[Case]) -> Iterator[str]:
    """Yield sentences on outputs of which elements are left out, and on iterations that are not
    checked, in a larger share of the documents."""
    before, after = _passed(base), _passed(other)
    most: dict[str, int] = {}
    for output in (output for one in before for output in one.outputs):
        most[output.name] = max(most.get(output.name, 0), output.elements)

    def misses(one: Validation) -> list[str]:
        return [o.name for o in one.outputs if o.elements < most.get(o.name, 0)]

    if any(map(misses, after)) and _share(before, after, misses).worse:
        name = next(name for one in after for name in misses(one))
        yield f"not all elements of output {name} are checked any more"
    often, least = (
        choose(one.iterations_checked for one in side)
        for choose, side in ((max, before), (min, after))
    )
    if often == 0 or least * FEWER > often:
        return
    share = max(_checked_share(case) for case in base)

    def is_seldom(case: Case) -> bool:
        found = case.validation
        if found is None or found.status != "passed" or found.iterations_checked * FEWER > often:
            return False
        return found.iterations_checked == 0 or _checked_share(case) * FEWER <= share

    if _share(base, other, is_seldom).worse:
        yield f"iterations checked: {least}, were {often}"


def _checked_share(case: Case) -> float:
    """Return the share of timed iterations that were checked; 0 if outputs did not pass."""
    name, found = time_series(case), case.validation
    if name is None or found is None or found.status != "passed":
        return 0.0
    timed = sum(one.series[name].size for one in case.rounds if name in one.series)
    if not case.rounds:
        timed = case.summary[name].count
    return found.iterations_checked / max(timed, 1)


def _looser(base: Sequence[Validation], other: Sequence[Validation]) -> Iterator[str]:
    before, after = _tolerances(base), _tolerances(other)
    for name in (name for name in before if name in after):
        for kind, least, most in zip(("rtol", "atol"), before[name], after[name], strict=True):
            if most > LOOSER * least:
                yield f"the {kind} of {name} grew from {least:.2g} to {most:.2g}"
                return


def _tolerances(validations: Sequence[Validation]) -> dict[str, tuple[float, float]]:
    """Return the largest relative and absolute tolerance of each output."""
    found: dict[str, tuple[float, float]] = {}
    for one in validations:
        for output in one.outputs:
            rtol, atol = found.get(output.name, (0.0, 0.0))
            found[output.name] = max(rtol, output.rtol), max(atol, output.atol)
    return found


def _grown(base: Sequence[Validation], other: Sequence[Validation]) -> Iterator[str]:
    """Yield an error that is within its tolerance and grew by `ERROR_GROWTH`."""
    before, after = _errors(base), _errors(other)
    for name in (name for name in before if name in after):
        least, most = before[name], after[name]
        if most > 0 and most >= ERROR_GROWTH * least:
            yield f"the error of {name} grew from {least:.2g} to {most:.2g} within its tolerance"
            return


def _errors(validations: Sequence[Validation]) -> dict[str, float]:
    """Return the largest error of each output."""
    found: dict[str, float] = {}
    for one in validations:
        for output in one.outputs:
            found[output.name] = max(found.get(output.name, 0.0), _least_error(output))
    return found


def _least_error(output: OutputValidation) -> float:
    value = float(output.max_abs)
    return max(math.inf if math.isnan(value) else value, ERROR_FLOOR * output.atol)


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
