"""Whether a GPU that measures changes the times of another one: pairs within a plan.

Usage:
  two_gpus_pairs.py [options]

Options:
  --engine=SPEC  [default: cudnn]
  --pairs=N      of visits alone and together, for each graph [default: 8]
  --samples=N    in a visit [default: 60]
  --specs=FILE   other graphs, one --op a line
  --seconds=S    for all of it: no graph begins later [default: 3600]

Times of fresh processes scatter by more than what is looked for, so each graph of `two_gpus.py`
is built once on each of two GPUs and stays: visits of one GPU alone, of the other alone, and of
both at the same time take turns (the order turns too). By case: the mean change together, with its
95 % interval over pairs, and the change between visits alone that follow each other, as a control.
After Ctrl-C or SIGTERM the graphs that are complete are summed up, in the line that begins with
``= ``.
"""

from __future__ import annotations

import math
import signal
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench_schema.estimate import two_sided
from docopt import docopt

from bench_run.measure.loop import REST_S, SamplingBudget
from bench_run.measure.time_breakdown import TimeBreakdown
from bench_run.options import Options
from bench_run.runner.planning import outline_run, plan_opened
from bench_run.runner.references import ReferenceStore
from bench_run.runner.rounds import request_of
from bench_run.worker.messages import BuildPlan, Release, SamplePlan
from bench_run.worker.parent.pool import WorkerPool

sys.path.insert(0, str(Path(__file__).resolve().parent))
from two_gpus import STEP_NS, WITHIN, read_ops

LONGEST_NS = 300_000_000


class Pair:
    """A graph on both devices."""

    def __init__(self, cases, pools, threads, references, samples):
        self.cases, self.pools, self.threads = cases, pools, threads
        budget = SamplingBudget(2, samples, 0, LONGEST_NS, 1, REST_S)
        self.requests = [
            request_of(case, references, references.validation_settings(case.graph, "none"), budget)
            for case in cases
        ]

    def on_each(self, function, places=(0, 1)):
        """Of each place at the same time."""
        return dict(zip(places, self.threads.map(function, places), strict=True))

    def keep(self):
        """Why it was not built, or None."""
        kept = self.on_each(
            lambda i: self.pools[i].keep(self.cases[i].engine, BuildPlan("plan", self.requests[i]))
        )
        return next(
            (k.case.outcome for k in kept.values() if k.case.outcome.status != "completed"), None
        )

    def visit(self, *places):
        """Logarithm of the time by place."""
        visited = self.on_each(
            lambda i: self.pools[i].sample(
                self.cases[i].engine, SamplePlan("plan", self.requests[i].budget)
            ),
            places,
        )
        return {i: one.log_time for i, one in visited.items()}

    def release(self):
        self.on_each(lambda i: self.pools[i].release(self.cases[i].engine, Release(("plan",))))

    def changes(self, count):
        """By place: what company changes, and what visits alone that follow each other differ."""
        moved, control, before = {0: [], 1: []}, {0: [], 1: []}, {}
        self.visit(0, 1)  # warm
        for number in range(count):
            slots = [(0,), (1,), (0, 1)][:: -1 if number % 2 else 1]
            found = {slot: self.visit(*slot) for slot in slots}
            for i in (0, 1):
                alone = found[(i,)][i]
                moved[i].append(found[0, 1][i] - alone)
                if i in before:
                    control[i].append(alone - before[i])
                before[i] = alone
        return moved, control


def interval(values):
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, two_sided(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def tell(name, time_ns, moved, control):
    """Whether the change is within 0.2 %."""
    mean, half = interval(moved)
    control_mean, control_half = interval(control)
    print(
        f"{name[:50]:<50} {time_ns:9.0f} {100 * STEP_NS / time_ns:6.2f} {100 * mean:+8.3f} "
        f"{100 * half:6.3f} {100 * control_mean:+8.3f} {100 * control_half:6.3f}"
    )
    return mean, half


def pairs_of(planned, engines):
    """The cases of each graph, one for each engine."""
    by_graph = {}
    for case in planned.cases:
        by_graph.setdefault(case.graph.id.path, {})[case.engine.key] = case
    return [[cases[engine.key] for engine in engines] for cases in by_graph.values()]


def measure(cases, pools, references, given, until):
    """Mean change and half of its interval, for each graph on each of two devices."""
    with ThreadPoolExecutor(2) as threads:
        for both in cases:
            name = both[0].graph.id.name
            if time.monotonic() > until:
                print(f"{name}: no time is left")
                continue
            pair = Pair(both, pools, threads, references, int(given["--samples"]))
            problem = pair.keep()
            if problem is not None:
                print(f"{name}: {problem.reason}")
                continue
            moved, control = pair.changes(int(given["--pairs"]))
            time_ns = math.exp(pair.visit(0)[0])
            for place in (0, 1):
                yield tell(f"{place} {name}", time_ns, moved[place], control[place])
            sys.stdout.flush()
            pair.release()


def main():
    given = docopt(__doc__)
    until = time.monotonic() + float(given["--seconds"])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ops = read_ops(given["--specs"])
    options = Options(op=ops, engine=(given["--engine"],), device=None, reference="none")
    pool = WorkerPool(options.timeout_s, {}, None, "fork")
    planned = plan_opened(options, outline_run(options), pool)
    engines = planned.engines[:2]
    references = ReferenceStore(options, {engine.key: engine for engine in engines})
    pools = [pool.beside(TimeBreakdown()) for _ in engines]
    for engine, own in zip(engines, pools, strict=True):
        pool.hand_over(engine, own)
    print(f"{'graph':<50} {'ns':>9} {'step %':>6} {'change %':>8} {'±':>6} {'alone %':>8} {'±':>6}")
    told = []
    try:
        told.extend(measure(pairs_of(planned, engines), pools, references, given, until))
    except KeyboardInterrupt:
        print("interrupted")
    finally:
        references.close()
        for each in (*pools, pool):
            each.kill()
    within = sum(abs(mean) <= WITHIN for mean, _ in told)
    sure = sum(abs(mean) + half <= WITHIN for mean, half in told)
    beyond = sum(abs(mean) - half > WITHIN for mean, half in told)
    overall = 100 * statistics.fmean(mean for mean, _ in told) if told else math.nan
    print(
        f"= pairs within a plan: {within} of {len(told)} within 0.2 %, {sure} with the whole "
        f"interval, {beyond} with it beyond; mean change {overall:+.3f} %"
    )


if __name__ == "__main__":
    main()
