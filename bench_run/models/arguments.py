"""The arguments of one call of a model, looked up in both formats."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.models.model import Array, Dims

Made: TypeAlias = tuple[str, tuple[Any, ...], dict[str, Any]]
"""Kind, operands, attributes."""
Numbers = tuple[int, ...]


HARMLESS = (
    *("storage_order", "momentum", "stash_type", "keepdims", "allowzero", "consumed_inputs"),
    *("seed", "sorted", "hidden_size", "num_outputs", "saturate", "round_mode", "output_sequence"),
    *("is_test", "spatial", "ratio", "shape", "axes", "split", "to", "noop_with_empty_axes"),
    *("output_padding", "kernel_shape"),
)
"""Attributes of ONNX that change no value of what is made here, or that follow from the lengths of
the result."""


class InexpressibleError(Exception):
    """No graph does the call with these arguments. The text is the reason, where one is known."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call."""

    values: Mapping[int | str, Any]
    """ONNX: operands by place, attributes by name. ATen: all by the names of the schema."""
    shape: Callable[[Any], Dims]
    """Dims of an operand."""
    known: Callable[[Any], Array | None]
    """The values of an operand, if they are known."""
    unit: Callable[[Any], float]
    """Distance between 1 and the next number of an operand's type."""
    outputs: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    """ONNX: results by place, with empty names of those that are not wanted."""
    opset: int = 99
    """Version of ONNX's operations."""
    asked: set[int | str] = field(default_factory=set)
    """Keys that were looked up: what a call says beyond those was not read."""

    def get(self, *keys: int | str, default: Any = None) -> Any:
        self.asked.update(keys)
        return next((self.values[key] for key in keys if key in self.values), default)

    def unread(self) -> list[str]:
        """Return attributes that say something which was not looked up."""
        words = [key for key in self.values if isinstance(key, str) and key not in self.asked]
        return [word for word in words if word not in HARMLESS]

    @property
    def x(self) -> Any:
        """The first operand."""
        return self.get(0, "self", "input")

    def rank(self, value: Any) -> int:
        """Return the number of axes of an operand."""
        return len(self.shape(value))

    @property
    def dims(self) -> Dims:
        """Dims of the first operand."""
        return self.shape(self.x)

    def axis(self, value: int, rank: int | None = None) -> int:
        """Return the axis counted from the first; a number without axes has one of length one."""
        rank = max(1, len(self.dims) if rank is None else rank)
        return value % rank if -rank <= value < rank else refuse()

    def numbers(self, *keys: int | str) -> Numbers | None:
        """Return the whole numbers of an attribute or of an operand whose values are known."""
        value = self.get(*keys)
        if value is None or isinstance(value, (int, list, tuple)):
            return (value,) if isinstance(value, int) else None if value is None else tuple(value)
        array = self.known(value)
        found = not_constant(keys) if array is None else array.reshape(-1).tolist()
        return tuple(int(number) for number in found)

    def number(self, *keys: int | str) -> float | None:
        """Return one number, from an attribute or from an operand with a known value."""
        value = self.get(*keys)
        if value is None or isinstance(value, (int, float)):
            return None if value is None else float(value)
        array = self.known(value)
        found = not_constant(keys) if array is None else array.reshape(-1).tolist()
        return float(found[0] if len(found) == 1 else refuse())

    def is_constant(self, *keys: int | str) -> bool:
        """Return True if a number is absent or known."""
        value = self.get(*keys)
        return value is None or isinstance(value, (int, float)) or self.known(value) is not None


def refuse(reason: str = "") -> Any:
    raise InexpressibleError(reason)


def not_constant(keys: Sequence[int | str]) -> Any:
    """Refuse an operand whose values are known only when the model runs. `keys` name it."""
    name = next(key for key in keys if isinstance(key, str))
    return refuse(f"the values of its operand {name} are not constants of the model")


def many_of(value: Any, rank: int) -> Numbers:
    found = tuple(value) if isinstance(value, (list, tuple)) else (value,) * rank
    return found if len(found) == rank else found * rank if len(found) == 1 else refuse()


Word: TypeAlias = tuple[str, str, float | None]
"""Names of a number in ONNX and ATen, and what its absence means."""
