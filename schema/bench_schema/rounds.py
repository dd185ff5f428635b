"""The rounds of a case in a document that was read: packed, and built when they are looked at.

A million rounds as objects take a gigabyte; packed they take little more than their samples.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, overload

import msgspec
import numpy as np

from bench_schema.document import Round

CASES_BUILT = 1 << 4
"""Cases whose rounds stay built, so that neighbours in a program need not build them again."""

_NAMES = [one.name for one in fields(Round)]
_TYPES = typing.get_type_hints(Round)
_row = attrgetter(*_NAMES)
_pack = msgspec.msgpack.Encoder(enc_hook=lambda samples: samples.tobytes()).encode
_unpack = msgspec.msgpack.Decoder(
    list[tuple[tuple(_TYPES[name] for name in _NAMES)]],  # type: ignore[misc]
    dec_hook=lambda _kind, samples: np.frombuffer(samples, np.int64),
).decode


class StoredRounds(Sequence[Round]):
    """Rounds that are valid, in the order of the document."""

    __slots__ = ("_count", "_packed", "facts")

    def __init__(self, packed: bytes, count: int) -> None:
        self._packed, self._count = packed, count
        self.facts: object = None
        """A reader's summary of the rounds, so that it need not build them again."""

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> StoredRounds:
        return cls(_pack([_row(one) for one in rounds]), len(rounds))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Round: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Round, ...]: ...
    def __getitem__(self, place: int | slice) -> Round | tuple[Round, ...]:
        return _built(self)[place]

    def __iter__(self) -> Iterator[Round]:
        return iter(_built(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredRounds, (self._packed, self._count)


@functools.lru_cache(CASES_BUILT)
def _built(rounds: StoredRounds) -> tuple[Round, ...]:
    return tuple(Round(*row) for row in _unpack(rounds._packed))
