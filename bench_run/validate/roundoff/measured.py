"""The estimate of data at hand, from a sample of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench_run.validate.roundoff.estimate import Estimate, constant

if TYPE_CHECKING:
    from bench_run.tensors.storage import Storage

SAMPLE = 1 << 16


def measured(data: Storage) -> Estimate:
    """NaN and infinities are left out: they have no size. Gaps of strides count, being alike."""
    step = max(1, data.size // SAMPLE)
    values = data[::step].astype(np.float64)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return constant(0.0)
    size = np.abs(values)
    return Estimate(
        rms=float(np.sqrt(np.mean(values * values))),
        mean=abs(float(np.mean(values))),
        peak=float(size.max()),
        low=float(size.min()),
        positive=bool(values.min() > 0),
    )
