"""Devices in MXNet's words: ``cpu``, ``gpu(2)``."""

from __future__ import annotations

from bench_run.engines import availability
from bench_run.errors import UsageError


def engine_of(context: str | None, where: str) -> str:
    """Return the engine of ``cpu`` or ``gpu(2)``: PyTorch there, NumPy without PyTorch; of None the
    GPU, if there is one. Raises `UsageError`, which begins with `where`."""
    device = (context or "").rpartition(".")[2].replace("(", ":").rstrip(")")
    kind, _, index = device.partition(":")
    if context is None:
        kind = "gpu" if availability("torch:cuda").ok else "cpu"
    if kind not in ("cpu", "gpu") or (index and not index.isdecimal()):
        raise UsageError(f"{where}{context}: expected cpu or gpu(0)")
    if kind == "gpu":
        return ":".join(filter(None, ("torch:cuda", index)))
    return "torch:cpu" if availability("torch:cpu").ok else "numpy"
