"""Devices in MXNet's words: ``cpu``, ``gpu(2)``."""

from __future__ import annotations

from importlib.util import find_spec

from bench_run.errors import UsageError


def engine_of(context: str, where: str) -> str:
    """Return the engine of ``cpu`` or ``gpu(2)``: PyTorch there, NumPy without PyTorch. Raises
    `UsageError`, which begins with `where`."""
    device = context.rpartition(".")[2].replace("(", ":").rstrip(")")
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "gpu") or (index and not index.isdecimal()):
        raise UsageError(f"{where}{context}: expected cpu or gpu(0)")
    if kind == "gpu":
        return ":".join(filter(None, ("torch:cuda", index)))
    return "numpy" if find_spec("torch") is None else "torch:cpu"
