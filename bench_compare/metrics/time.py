"""Time of one execution, initialisation left out."""

from __future__ import annotations

from bench_compare.metrics.base import Metric, Sampled

ROWS = (
    Metric("device_ns", "device time", "ns", "lower", Sampled("device_ns"), gates=True),
    Metric("e2e_ns", "end-to-end time", "ns", "lower", Sampled("e2e_ns"), gates=True),
    Metric("kernel_sum_ns", "kernel time, sum", "ns", "lower", Sampled("kernel_sum_ns")),
    Metric("kernel_span_ns", "kernel time, span", "ns", "lower", Sampled("kernel_span_ns")),
)
