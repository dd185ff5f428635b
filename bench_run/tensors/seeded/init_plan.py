"""The requests of ``--init``, as values. No NumPy: flags are checked before anything is loaded.

Grammar: ``[TENSOR=]KIND[:ARGUMENT…]``, where TENSOR is a tensor's name or uid and KIND a row of
`KINDS`. Without TENSOR it applies to every input whose meaning leaves a choice: lengths, page
tables, variances and their like keep values that make sense unless they are named.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.graph.model import Graph, Tensor


@dataclass(frozen=True)
class Init:
    """One distribution. ``low`` and ``high`` are the arguments in the order of `KINDS`."""

    kind: str
    low: float = 0.0
    high: float = 0.0
    path: str | None = None

    @property
    def text(self) -> str:
        """The distribution as ``--init`` spells it."""
        if self.path is not None:
            return f"{self.kind}:{self.path}"
        numbers = (self.low,) if self.kind == "constant" else (self.low, self.high)
        return ":".join((self.kind, *map(repr, map(float, numbers))))


@dataclass(frozen=True)
class InitPlan:
    default: Init | None = None
    by_tensor: Mapping[str, Init] = field(default_factory=dict)
    """Keys are names or uids as text; a uid wins over a name."""

    def named(self, tensor: Tensor) -> Init | None:
        """Return the request for this very tensor."""
        return self.by_tensor.get(str(tensor.uid), self.by_tensor.get(tensor.name))


@dataclass(frozen=True)
class Kind:
    defaults: tuple[float, ...]
    """Arguments that may be left out, all together."""
    usage: str


KINDS = {  # quarters: multiples of 1/4; zeros, nan, special: uniform with such among them
    "uniform": Kind((-1.0, 1.0), "uniform[:LOW:HIGH]"),
    "normal": Kind((0.0, 1.0), "normal[:MEAN:STD]"),
    "integers": Kind((-8.0, 8.0), "integers[:LOW:HIGH]"),
    "quarters": Kind((-8.0, 8.0), "quarters[:LOW:HIGH]"),
    "zeros": Kind((-1.0, 1.0), "zeros[:LOW:HIGH]"),
    "nan": Kind((-1.0, 1.0), "nan[:LOW:HIGH]"),
    "special": Kind((-1.0, 1.0), "special[:LOW:HIGH]"),
    "constant": Kind((), "constant:VALUE"),
    "file": Kind((), "file:PATH"),
}
_NAMES = "|".join(KINDS)
_PLAIN = re.compile(rf"(?P<kind>{_NAMES})(?::(?P<rest>.*))?\Z", re.DOTALL)
_NAMED = re.compile(rf"(?P<tensor>.+?)=(?P<kind>{_NAMES})(?::(?P<rest>.*))?\Z", re.DOTALL)


def parse_init(texts: Sequence[str]) -> InitPlan:
    """Return the plan that several ``--init`` texts make together; a later one wins over an
    earlier."""
    default: Init | None = None
    by_tensor: dict[str, Init] = {}
    for text in texts:
        match = _PLAIN.match(text) or _NAMED.match(text)
        if match is None:
            kinds = ", ".join(kind.usage for kind in KINDS.values())
            what = f"--init: no distribution in {text!r}; write [TENSOR=] and one of {kinds}"
            raise UsageError(what)
        init = _parse(text, match["kind"], match["rest"])
        tensor = match.groupdict().get("tensor")
        if tensor is None:
            default = init
        else:
            by_tensor[tensor] = init
    return InitPlan(default, by_tensor)


def unused_names(plan: InitPlan, graph: Graph) -> tuple[str, ...]:
    """Return the plan's names and uids that are not inputs of this graph, in the plan's order."""
    known = {str(t.uid) for t in graph.inputs} | {t.name for t in graph.inputs}
    return tuple(name for name in plan.by_tensor if name not in known)


def _parse(text: str, kind: str, rest: str | None) -> Init:
    if kind == "file":
        if not rest:
            raise UsageError(f"--init: {text!r} names no file; write {KINDS[kind].usage}")
        return Init(kind, path=rest)
    numbers = KINDS[kind].defaults
    if rest is not None:
        try:
            numbers = tuple(float(part) for part in rest.split(":"))
        except ValueError:
            raise UsageError(f"--init: {text!r}: {rest!r} are not numbers joined by ':'") from None
    wanted = 1 if kind == "constant" else 2
    if len(numbers) != wanted:
        raise UsageError(f"--init: {text!r}: expected {KINDS[kind].usage}")
    init = Init(kind, numbers[0], numbers[-1] if wanted == 2 else 0.0)
    problem = _problem(init)
    if problem is not None:
        raise UsageError(f"--init: {text!r}: {problem}")
    return init


def _problem(init: Init) -> str | None:
    if init.kind == "constant":
        return None
    if not (math.isfinite(init.low) and math.isfinite(init.high)):
        return "expected finite numbers"
    if init.kind == "normal":
        return None if init.high > 0 else "expected a standard deviation above 0"
    if init.low > init.high or (
        init.kind not in ("integers", "quarters") and init.low == init.high
    ):
        return "expected LOW below HIGH"
    if init.kind == "integers" and not (init.low.is_integer() and init.high.is_integer()):
        return "expected whole numbers"
    return None
