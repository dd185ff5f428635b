"""Statistics of one sample series, all rounds pooled; the only place that computes them.

A summary describes samples: their distribution, its ends, how many there are. It is not a case's
time, which is an estimate over rounds (`estimate`): its `median` is that of the pooled samples, so
that a round with twice as many counts twice. No table prints it as the time.

The interval of the median. Iterations within a round are not independent (clock states, memory
placement), rounds are. So with three rounds or more it is the t interval over the logarithms of the
rounds' medians, R - 1 degrees of freedom; over the medians themselves if one of them is not
positive. With one or two rounds it is the order-statistic (binomial) interval of the pooled
samples, which does not include differences between rounds: read it as a lower bound of the
uncertainty. Below six samples there is none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bench_schema.document import PAID_ONCE, Achieved, Summary
from bench_schema.estimate import MIN_ROUNDS_FOR_T, binomial_rank, main_series, t_interval

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from bench_schema.document import Case, Cpu, Device, Samples, Work


SHARES = (0.05, 0.5, 0.90, 0.95, 0.99)
"""Shares of the samples below p5, the median, p90, p95 and p99."""


def summarize(rounds: Sequence[Samples], cuts: Sequence[int]) -> Summary:
    """Return statistics of one series over its rounds without the first ``cuts[r]`` samples of
    each."""
    kept = [samples[cut:] for samples, cut in zip(rounds, cuts, strict=True)]
    kept = [samples for samples in kept if samples.size]
    if not kept:
        raise ValueError("no samples to summarise")
    pooled = np.sort(np.concatenate(kept))
    p5, middle, p90, p95, p99 = np.quantile(pooled, SHARES).tolist()
    low, high = median_interval(kept, pooled)
    return Summary(
        count=len(pooled),
        mean=float(pooled.mean()),
        std=float(pooled.std(ddof=1)) if len(pooled) > 1 else None,
        min=float(pooled[0]),
        p5=p5,
        median=middle,
        p90=p90,
        p95=p95,
        p99=p99,
        max=float(pooled[-1]),
        mad=float(np.median(np.abs(pooled - middle))),
        median_ci_low=low,
        median_ci_high=high,
    )


def median_interval(
    rounds: Sequence[Samples], pooled: Samples
) -> tuple[float | None, float | None]:
    """Return the 95 % confidence interval of the median; pooled samples are in order."""
    if len(rounds) >= MIN_ROUNDS_FOR_T:
        medians = [float(np.median(samples)) for samples in rounds]
        if min(medians) <= 0:
            return t_interval(medians)
        low, high = t_interval([math.log(median) for median in medians])
        return math.exp(low), math.exp(high)
    rank = binomial_rank(len(pooled))
    if rank is None:
        return None, None
    return float(pooled[rank]), float(pooled[-1 - rank])


def iterations_of(case: Case) -> int:
    """Return the number of timed iterations of a case, those of a warm-up that was found later
    included; of the series that has fewest."""
    names = {name for one in case.rounds for name in one.series}
    counts = [sum(one.series[n].size for one in case.rounds if n in one.series) for n in names]
    return min(counts, default=0)


def achieved(
    work: Work, summary: Mapping[str, Summary], device: Device | None, data_type: str
) -> Achieved | None:
    """Return rates at the pooled median of the main series; None without samples or at a median of
    no time."""
    series = main_series(summary)
    if series is None or summary[series].median <= 0:
        return None
    tflops, gbps = rates(work, summary[series].median)
    return Achieved(series, tflops, gbps, _ceiling_share(work, tflops, gbps, device, data_type))


def init_total_ns(case: Case, without: Collection[str] = ()) -> int | None:
    """Return the total time in nanoseconds of the initialisation phases and the first execution, of
    the median round, with the phases that are paid once; `without` some phases. None if no phase
    was measured."""
    phases = {name: values.tolist() for name, values in case.init.items() if name not in without}
    if not phases:
        return None
    once = sum(int(phases.pop(name)[0]) for name in PAID_ONCE if name in phases)
    totals = sorted(map(sum, zip(*phases.values(), strict=False)))
    return once + (totals[len(totals) // 2] if totals else 0)


def rates(work: Work, time_ns: float) -> tuple[float | None, float | None]:
    """Return TFLOP/s and GB/s for this time, above zero."""
    tflops = None if work.flops is None else work.flops / time_ns / 1000  # flops/ns are GFLOP/s
    gbps = None if work.moved_bytes is None else work.moved_bytes / time_ns  # bytes/ns are GB/s
    return tflops, gbps


def _ceiling_share(
    work: Work, tflops: float | None, gbps: float | None, device: Device | None, data_type: str
) -> float | None:
    """Return the share of the roofline, min(peak rate, intensity × bandwidth), or of the bandwidth
    without flops."""
    if device is None or device.ceiling_gbps is None or gbps is None or tflops is None:
        return None
    if work.flops == 0:
        return gbps / device.ceiling_gbps
    peak = device.ceiling_tflops.get(data_type)
    if peak is None or work.intensity is None:
        return None
    return tflops / min(peak, work.intensity * device.ceiling_gbps / 1000)


# Times that no machine of this kind can reach: work was not done.
#
# The bounds are generous: what is marked is off by a factor, not by a percentage. A GPU is held
# against its own measured ceilings (matrix rate of the data type; copy bandwidth, times what its
# caches add); a processor, where nothing is measured, against what its cores could do at most:
# two 512-bit fused multiply-adds a cycle in each core (64 float32 operations), tiles of 16-bit and
# 8-bit types (AMX: 2048 operations of 16 bits a cycle), three 64-byte accesses of the first-level
# cache a cycle, at 6 GHz.

RATE_MARGIN = 1.5
"""Above the measured matrix rate: clocks, and products that skip what is known to be zero."""
CACHE_MARGIN = 8.0
"""Caches over memory: the second-level cache of an H200 gives about 2.5 times its memory's rate."""
CPU_HZ = 6e9
CPU_FLOPS_A_CYCLE: Mapping[str, float] = {
    "double": 32,
    "float": 64,
    "half": 2048,
    "bfloat16": 2048,
    "int8": 4096,
    "uint8": 4096,
}
CPU_BYTES_A_CYCLE = 192
CPU_CORES = 512
"""Core count to assume if the machine does not report one."""


def implausible(
    work: Work,
    summary: Mapping[str, Summary],
    device: Device | None,
    cpu: Cpu | None,
    data_type: str,
) -> str | None:
    """Return a sentence on the limit that the fastest median beats; None if it beats no known
    limit.

    `cpu` is the processor of an engine that does not use a device.
    """
    medians = {
        name: each.median for name, each in summary.items() if name in ("device_ns", "e2e_ns")
    }
    if not medians:
        return None
    series, median_ns = min(medians.items(), key=lambda item: item[1])
    tflops = gbps = None  # what cannot be exceeded, where it is known
    if device is not None:
        peak, copy = device.ceiling_tflops.get(data_type), device.ceiling_gbps
        tflops = None if peak is None else RATE_MARGIN * peak
        gbps = None if copy is None else CACHE_MARGIN * copy
    elif cpu is not None:
        cycles, flops = (cpu.cores or CPU_CORES) * CPU_HZ, CPU_FLOPS_A_CYCLE.get(data_type)
        tflops = None if flops is None else cycles * flops / 1e12
        gbps = cycles * CPU_BYTES_A_CYCLE / 1e9
    took = f"{series} of {median_ns:.0f} ns"
    if tflops is not None and work.flops and work.flops / median_ns / 1e3 > tflops:
        rate = work.flops / median_ns / 1e3
        return f"{took} would be {rate:.3g} TFLOP/s; this machine reaches at most {tflops:.3g}"
    if gbps is not None and work.moved_bytes and work.moved_bytes / median_ns > gbps:
        rate = work.moved_bytes / median_ns
        return f"{took} would be {rate:.3g} GB/s; this machine reaches at most {gbps:.3g}"
    return None
