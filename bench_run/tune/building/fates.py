"""What becomes of the options of a graph until the race: each is built and run once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_schema.document import Case
    from bench_schema.tuning import Limits

    from bench_run.tune.building.session import Session
    from bench_run.tune.candidates import Option


@dataclass(frozen=True)
class Fate:
    """Of one option; `status` and the rest as in the record."""

    status: Any
    reason: str | None = None
    built: bool = False
    error: float | None = None
    deterministic: bool | None = None
    workspace_bytes: int | None = None
    plan: Mapping[str, str] = field(default_factory=dict)
    beyond: str | None = None
    """The limit that the default breaks: it is measured all the same."""

    @property
    def facts(self) -> tuple[bool | None, float | None, int | None]:
        """What equals are told apart by."""
        return self.deterministic, self.error, self.workspace_bytes


def fates_of(
    options: Sequence[Option], session: Session, limits: Limits, is_over: Callable[[], bool]
) -> list[Fate]:
    """The default is the first option: it is measured whatever limits it breaks, as what the others
    are held against, and since nothing else is sure to run."""
    fates: list[Fate] = []
    seen: dict[tuple[str, str, str, str], str] = {}
    for index, option in enumerate(options):
        if option.problem is not None:
            fates.append(Fate(option.status, option.problem))
            continue
        if index > 0 and is_over():
            fates.append(Fate("not tried", "the budget was gone before it was built"))
            continue
        fate = _fate(session.build(index))
        limited = _limited(fate, limits) if fate.status == "ok" else fate
        fate = limited if index > 0 else replace(fate, beyond=beyond_of(fate, limited))
        fate = _first_of_its_plan(fate, option, seen)
        if fate.status != "ok":
            session.release(index)
        fates.append(fate)
    return fates


def beyond_of(fate: Fate, limited: Fate) -> str | None:
    return None if fate.status == limited.status else limited.reason


def repeated(fate: Fate, case: Case) -> Fate:
    """The same after one more run of the option: now it is known whether it is deterministic."""
    again = _fate(case)
    if fate.status != "ok" or again.status not in ("ok", "wrong"):
        return fate
    return replace(
        fate, status=again.status, reason=again.reason, deterministic=again.deterministic
    )


def _fate(case: Case) -> Fate:
    """Of a case that was built, or was not."""
    outcome, checked = case.outcome, case.validation
    if outcome.status != "completed":
        status = "failed" if outcome.status == "skipped" else outcome.status
        return Fate(status, outcome.reason)
    error, deterministic = None, None
    if checked is not None:
        deterministic = checked.deterministic
        error = largest_error(case)
    workspace = None if case.memory is None else case.memory.workspace_bytes
    known = (True, error, deterministic, workspace, case.plan)
    if checked is not None and checked.status == "failed":
        return Fate("wrong", checked.reason or "its outputs differ from the reference", *known)
    return Fate("ok", None, *known)


def largest_error(case: Case) -> float | None:
    """Largest relative L2 error of an output; None where nothing was compared."""
    if case.validation is None or not case.validation.outputs:
        return None
    errors = [float(output.relative_l2) for output in case.validation.outputs]
    worst = max(errors, key=lambda e: (e != e, e))
    return worst if worst == worst and worst != float("inf") else None


def _limited(fate: Fate, limits: Limits) -> Fate:
    """The same, or out, where it breaks a limit. What is not known breaks it too."""
    problem = None
    if limits.error is not None and (fate.error is None or fate.error > limits.error):
        problem = f"error {_text(fate.error)}, at most {limits.error:g} is allowed"
    most = limits.workspace_bytes
    size = fate.workspace_bytes
    if most is not None and (size is None or size > most):
        problem = f"workspace {size} bytes, at most {most} are allowed"
        if size is None:
            problem = f"its workspace is not known, at most {most} bytes are allowed"
    if limits.deterministic and fate.deterministic is not True:
        problem = "not deterministic: two runs gave other bytes"
        if fate.deterministic is None:
            problem = "not known to be deterministic: its outputs were not compared"
    return fate if problem is None else replace(fate, status="over a limit", reason=problem)


def _text(error: float | None) -> str:
    return "not known" if error is None else f"{error:.3g}"


def _first_of_its_plan(
    fate: Fate, option: Option, seen: dict[tuple[str, str, str, str], str]
) -> Fate:
    """A duplicate where the same engine chose the same plan for the same graph before."""
    plan = fate.plan.get("plan")
    if fate.status != "ok" or not plan:
        return fate
    engine = option.case.engine
    knobs = str(sorted((k, v) for k, v in option.case.variant.items() if k.startswith("knob:")))
    arithmetic = f"{engine.spec.name} {engine.options.math}"
    key = (option.case.graph.id.fingerprint, arithmetic, plan, knobs)
    name = option.key or "the default"
    if key in seen:
        return replace(fate, status="duplicate", reason=f"the same plan as {seen[key]}")
    seen[key] = name
    return fate
