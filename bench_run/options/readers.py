"""How the text of a flag or of a key in `--config` becomes a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench_run.errors import UsageError

MOST_SHARDS = 10_000

Reader = Callable[[str, str], Any]


@dataclass(frozen=True)
class Flag:
    field: str
    read: Reader
    many: bool = False


def read_text(_flag: str, value: str) -> str:
    return value


def whole_reader(minimum: int) -> Reader:
    def read(flag: str, value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise UsageError(f"{flag}: expected a whole number, got {value!r}") from None
        if number < minimum:
            raise UsageError(f"{flag}: expected at least {minimum}, got {number}")
        return number

    return read


def read_devices(flag: str, value: str) -> tuple[int, ...] | None:
    """``2``, ``0,2`` or ``all``."""
    if value == "all":
        return None
    found = value.split(",")
    if not all(part.isdecimal() for part in found) or len(set(found)) < len(found):
        raise UsageError(
            f"{flag}: expected a device number, several such as 0,2, or all: {value!r}"
        )
    return tuple(map(int, found))


def read_number(flag: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"{flag}: expected a number, got {value!r}") from None
    if not math.isfinite(number) or number < 0:
        raise UsageError(f"{flag}: expected a finite number of at least 0, got {value}")
    return number


def read_seconds(flag: str, value: str) -> float:
    number = read_number(flag, value.removesuffix("s").strip())
    if number == 0:
        raise UsageError(f"{flag}: expected more than 0 seconds")
    return number


def read_limit(flag: str, value: str) -> float | None:
    return None if value == "none" else read_seconds(flag, value)


def read_ratio(flag: str, value: str) -> float:
    percent = value.endswith("%")
    number = read_number(flag, value.removesuffix("%"))
    number = number / 100 if percent else number
    if not 0 < number < 1:
        raise UsageError(f"{flag}: expected a share such as 1% or 0.01, got {value}")
    return number


def choice_reader(choices: Sequence[str]) -> Reader:
    def read(flag: str, value: str) -> str:
        if value not in choices:
            raise UsageError(f"{flag}: no choice {value!r}; choose from {', '.join(choices)}")
        return value

    return read


def read_pair(flag: str, value: str) -> tuple[str, str]:
    key, equals, rest = value.partition("=")
    if not equals or not key:
        raise UsageError(f"{flag}: expected KEY=VALUE, got {value!r}")
    return key, rest


def read_switch(flag: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise UsageError(f"{flag}: expected true or false, got {value!r}")
    return value == "true"


def read_shard(flag: str, value: str) -> str:
    """``2/8``, without leading zeros."""
    index, slash, count = value.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal()):
        raise UsageError(f"{flag}: expected I/N such as 2/8, got {value!r}")
    if not 1 <= int(index) <= int(count):
        raise UsageError(f"{flag}: expected a share from 1/{int(count)} up to N/N, got {value}")
    if int(count) > MOST_SHARDS:
        raise UsageError(f"{flag}: at most {MOST_SHARDS} shards, got {value}")
    return f"{int(index)}/{int(count)}"
