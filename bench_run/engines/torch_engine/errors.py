"""PyTorch's exceptions become ours here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from bench_run.errors import EngineError, UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Iterator

MISSING = ("not implemented for", "not supported for", "is not currently implemented")
"""How PyTorch says that it has no kernel for a type on this device."""
HOST_ALLOCATOR = "DefaultCPUAllocator"
"""Named where the host's memory is at its end."""


@contextmanager
def foreign_errors(what: str) -> Iterator[None]:
    """`what` names the node or the step in the message."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise EngineError(f"torch: {what}: out of memory: {_line(error)}", detail=str(error)) from (
            error
        )
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if HOST_ALLOCATOR in str(error):
            what = f"torch: {what}: out of memory on the host"
            raise EngineError(what, detail=str(error)) from error
        if any(text in str(error) for text in MISSING):
            raise UnsupportedGraphError(f"torch: {what}: {_line(error)}") from error
        raise EngineError(f"torch: {what}: {_line(error)}", detail=str(error)) from error
    except MemoryError as error:
        raise EngineError(f"torch: {what}: out of memory on the host") from error


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
