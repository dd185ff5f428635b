"""Operations that models spell out in several calls: RMS norm, gelu."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench_run.models.model import Model, ModelCall

Operand = str | float | None
"""A value's name, a number, or nothing."""
T = TypeVar("T")


class AbsentError(Exception):
    """The calls are not the pattern's."""


@dataclass
class _Reader:
    """Follows a value back through the calls that made it."""

    model: Model
    made: Mapping[str, ModelCall]
    """Value to the call that it is a result of."""
    taken: list[ModelCall]
    """Calls of the pattern so far, the last one first."""

    def call(self, value: Operand, kind: str) -> ModelCall:
        found = self.made.get(value) if isinstance(value, str) else None
        if found is None or found.kind != kind:
            raise AbsentError
        self.taken.append(found)
        return found

    def uncast(self, value: Operand) -> Operand:
        """Return the value before its cast, or the value itself."""
        try:
            return self.call(value, "cast").inputs[0]
        except AbsentError:
            return value

    def number(self, value: Operand) -> float:
        array = self.model.weights.get(value) if isinstance(value, str) else None
        if array is not None and array.size == 1:
            return float(array.reshape(-1)[0])
        return float(value) if isinstance(value, (int, float)) else _absent()

    def with_number(self, value: Operand, kind: str) -> tuple[Operand, float]:
        """Return the other operand and the number of a call that reads one."""
        return self.either(value, kind, lambda a, b: (a, self.number(b)))

    def product(self, value: Operand, depth: int) -> tuple[float, list[Operand]]:
        """Return the number and the other factors of products of products, and of one by a
        number."""
        maker = self.made.get(str(value))
        if depth == 0 or maker is None or maker.kind not in ("mul", "div"):
            return 1.0, [value]
        a, b = self.call(value, maker.kind).inputs[:2]
        scale = 1.0
        factors: list[Operand] = []
        for operand, inverse in ((a, False), (b, maker.kind == "div")):
            try:
                number = self.number(operand)
                scale *= 1 / number if inverse else number
            except AbsentError:
                if inverse:
                    raise
                inner, more = self.product(operand, depth - 1)
                scale, factors = scale * inner, factors + more
        return scale, factors

    def inverse_root(self, value: Operand) -> Operand:
        """Return the operand of ``rsqrt(…)``, ``1 / sqrt(…)`` or ``sqrt(…) ** -1``."""
        maker = self.made.get(str(value))
        if maker is not None and maker.kind == "rsqrt":
            return self.call(value, "rsqrt").inputs[0]
        if maker is not None and maker.kind == "div":
            one, root = self.call(value, "div").inputs
            if self.number(one) != 1:
                _absent()
        else:
            root = self.call(value, "reciprocal").inputs[0]
        return self.call(root, "sqrt").inputs[0]

    def either(self, value: Operand, kind: str, read: Callable[[Operand, Operand], T]) -> T:
        """Return the result of `read` for both operands, in one order or the other."""
        a, b = self.call(value, kind).inputs[:2]
        before = len(self.taken)
        try:
            return read(a, b)
        except AbsentError:
            del self.taken[before:]
            return read(b, a)


def _absent() -> Any:
    raise AbsentError


def rms_norm(of: _Reader, call: ModelCall) -> ModelCall:
    """Match ``weight * (x * rsqrt(mean(x**2, -1) + eps))``, with casts or without."""
    dims = of.model.dims

    def inverse(x: Operand, root: Operand) -> tuple[Operand, float]:
        mean, eps = of.with_number(of.inverse_root(root), "add")
        reduced = of.call(mean, "mean")
        a, b = of.call(reduced.inputs[0], "mul").inputs
        over_last = reduced.attributes["axes"] == (len(dims[str(a)]) - 1,)
        if not a == b == x or not over_last or dims[str(root)] != (*dims[str(a)][:-1], 1):
            _absent()
        return of.uncast(x), eps

    def scaled(weight: Operand, normed: Operand) -> tuple[Operand, Operand, float]:
        array = of.model.weights.get(str(weight))
        if array is None or array.shape != dims[call.outputs[0]][-1:]:
            _absent()
        return (weight, *of.either(of.uncast(normed), "mul", inverse))

    weight, x, eps = of.either(call.outputs[0], "mul", scaled)
    return replace(call, kind="rmsnorm", inputs=(x, weight), attributes={"eps": eps, "last": 1})


def gelu(of: _Reader, call: ModelCall) -> ModelCall:
    """Match ``x/2 * (1 + erf(x/sqrt(2)))`` and ``x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 *
    x**3)))``."""
    scale, factors = of.product(call.outputs[0], 2)
    before = len(of.taken)
    for x, other in permutations(factors) if len(factors) == 2 and scale == 0.5 else ():
        try:
            kind = _bend(of, x, other)
        except AbsentError:
            del of.taken[before:]
        else:
            return replace(call, kind=kind, inputs=(x,), attributes={})
    raise AbsentError


def _bend(of: _Reader, x: Operand, other: Operand) -> str:
    bent, one = of.with_number(other, "add")
    maker = of.made.get(str(bent))
    kind = None if maker is None else maker.kind
    if one != 1 or kind not in ("erf", "tanh"):
        raise AbsentError
    scale, factors = of.product(of.call(bent, kind).inputs[0], 1)
    argument = factors[0] if len(factors) == 1 else _absent()
    if kind == "erf":
        return "gelu" if argument == x and _is_near(scale, 0.5**0.5) else _absent()

    def cubic(a: Operand, b: Operand) -> bool:
        weight, factors = of.product(b, 1)
        cube = of.call(factors[0], "power")
        is_cube = cube.inputs == (x,) and cube.attributes["exponent"] == 3
        return (a == x and is_cube and _is_near(weight, 0.044715)) or _absent()

    of.either(argument, "add", cubic)
    return "gelu_tanh" if _is_near(scale, math.sqrt(2 / math.pi)) else _absent()


def _is_near(number: float, wanted: float) -> bool:
    """Return True if equal within the precision of float32."""
    return math.isclose(number, wanted, rel_tol=1e-6)


PATTERNS = (rms_norm, gelu)


def join(model: Model) -> Model:
    """Return the model with one call for each pattern; the call knows the parts that it
    replaces."""
    made = {name: call for call in model.calls for name in call.outputs}
    users = Counter(
        [name for call in model.calls for name in set(call.inputs) if isinstance(name, str)]
    )
    users.update(model.outputs)
    joined: dict[int, ModelCall] = {}
    gone: set[int] = set()
    for call in model.calls:
        for found, parts in _found(model, made, call):
            inner = _only_inner(parts, users)
            same = model.types.get(str(found.inputs[0])) == model.types.get(call.outputs[0])
            if same and not gone & set(map(id, inner)):
                joined[id(call)] = replace(found, parts=tuple(reversed(inner)))
                gone |= {id(each) for each in inner if each is not call}
    calls = (joined.get(id(call), call) for call in model.calls if id(call) not in gone)
    return replace(model, calls=tuple(calls))


def _found(
    model: Model, made: Mapping[str, ModelCall], call: ModelCall
) -> Iterator[tuple[ModelCall, list[ModelCall]]]:
    for pattern in PATTERNS if call.kind == "mul" else ():
        reader = _Reader(model, made, [])
        try:
            yield pattern(reader, call), reader.taken
        except AbsentError:
            continue


def _only_inner(calls: list[ModelCall], users: Counter[str]) -> list[ModelCall]:
    """Return the first call and those whose results only other ones of these read."""
    kept: list[ModelCall] = []
    read: Counter[str] = Counter()
    for call in {id(each): each for each in calls}.values():
        if not kept or all(users[name] == read[name] for name in call.outputs):
            kept.append(call)
            read.update({name for name in call.inputs if isinstance(name, str)})
    return kept
