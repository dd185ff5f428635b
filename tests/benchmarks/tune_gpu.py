"""Live tunings on a device: claims, winners, time, and what a run with a record costs.

Usage:
  tune_gpu.py --out=DIR [--seconds=S] [--second=N] [--every=N] [options] [GRAPH]...

Options:
  --out=DIR      where records and documents go
  --seconds=S    for all of it; what does not fit in any more is left out [default: 270]
  --second=N     every N-th graph is tuned a second time [default: 2]
  --every=N      of so many of these graphs all plans are measured [default: 4]
  --take=N       only the first N graphs
  --steps=LIST   what comes after the first tuning [default: second,ordinary,tuned,every]
  --engine=E     an engine, or several with commas, which are then what is varied [default: cudnn]
  --cache=STATE  as of bench-run [default: rotate]
  --batch=N      reduce every batch to this

GRAPH is suite:resnet50-batch32 unless said otherwise. In this order: a tuning of all graphs; one of
some of them with another seed; an ordinary run of all plans for a while, whose pace tells how long
all of it would take; runs of all graphs with the record and without in turns; all plans of a few
graphs. What does not fit in the time is left out. A step that fails is
told and the next one begins. DIR has everything as soon as it is known, also after Ctrl-C, SIGTERM
and kill -9: answers.txt, and of each tuning its record, document and what it said meanwhile. On a
machine without a GPU: `--engine numpy,torch --cache hot suite:smoke`.

Two tunings name the same winner strictly where it is the same plan, and within ties where each
one's winner is the other's or tied with it.
"""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
from bench_schema.files import read
from bench_schema.tuning import tuned_read
from docopt import docopt

from bench_run.options import Options
from bench_run.runner.planning import outline_run
from tests.benchmarks.tune_every import SUITE, Asked, measure_all, save

COMMAND = [sys.executable, "-m", "bench_run"]
COST_S, EVERY_S, SAMPLE_S = 45, 25, 20
"""What the later steps take: four runs, one graph with all plans, the ordinary run, a few graphs
tuned for energy."""
END_S = 15
"""What a command may take to keep what it has."""
answers = []


STEPS = {
    "second": 0,
    "ordinary": SAMPLE_S,
    "tuned": COST_S,
    "every": 2 * EVERY_S,
}
"""Seconds that the second tuning leaves for each of the others."""


def tell(text, out=None):
    """An answer, now and once more at the end; in a file of the folder `out`."""
    answers.append(text)
    print(text, flush=True)
    if out is not None:
        with (out / "answers.txt").open("a") as file:
            file.write(f"{text}\n")


def command(*words, log=None):
    """Run to its end, or interrupted with this script. Raises `CalledProcessError`. What it says
    meanwhile goes into the file `log`."""
    with open(log or "/dev/stderr", "w") as said:
        process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=said)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait(END_S)
        raise
    if code:
        raise subprocess.CalledProcessError(code, words[:1])


@contextmanager
def step(name, out=None):
    """What fails in it is told, and costs none of the others."""
    try:
        yield
    except Exception as error:  # a device is too dear for mistakes of ours
        tell(f"{name}: failed: {type(error).__name__}: {error}", out)


@dataclass(frozen=True)
class Plan:
    graphs: tuple[str, ...]
    engines: tuple[str, ...]
    cache: str
    batch: str | None
    out: Path
    seconds: float
    steps: tuple[str, ...] = tuple(STEPS)
    began: float = field(default_factory=time.monotonic)

    @property
    def left_s(self):
        return self.seconds - (time.monotonic() - self.began)

    @property
    def varied(self):
        """Words that make a tuning of the engine's plans, or of several engines."""
        if len(self.engines) > 1:
            return ["--space", f"engine={','.join(self.engines)}"]
        return ["--engine", self.engines[0], "--space", "plan=all"]

    @property
    def paths(self):
        """Of the graphs, one by one."""
        return paths_of(self.graphs)

    def left_for(self, name):
        """Whether a step is wanted and there is time."""
        return name in self.steps and self.left_s > STEPS[name]

    @property
    def shared(self):
        batch = [] if self.batch is None else ["--scale-batch", self.batch]
        return ["--cache", self.cache, *batch]

    def tell(self, text):
        tell(text, self.out)


def paths_of(graphs):
    return [g.id.path for g in outline_run(Options(graphs=tuple(graphs))).graphs]


def tune(plan, graphs, number, *extra):
    """The record, and the seconds that it took."""
    begin, path = time.monotonic(), plan.out / f"live{number}.json"
    for left in plan.out.glob(f"live{number}.*"):
        left.unlink()  # of a call before this one
    words = [*graphs, *plan.varied, *plan.shared, "--check-budget", "0.02", *extra]
    log = plan.out / f"live{number}.log"
    command("tune", *words, "--seed", str(number), "-o", str(path), log=log)
    wall, record = time.monotonic() - begin, tuned_read(path)
    cases = read(record.document.path).cases
    rounds = [len(case.rounds) for case in cases]
    plan.tell(
        f"tuning {number}: {wall:.0f} s for {len(record.entries)} graphs, {record.cost}; "
        f"{np.mean(rounds):.1f} rounds of {len(rounds)} finalists"
    )
    for line in log.read_text().splitlines():
        if line.startswith(("races: ", "took ")):
            plan.tell(f"  {line}")
    whole_s = 5 * plans_of(record) / pace_of(cases)
    plan.tell(
        f"  at the pace of its own rounds five of all {plans_of(record)} plans would take "
        f"{whole_s:.0f} s: the tuning took {100 * wall / whole_s:.0f} % of that"
    )
    return record, wall


def plans_of(record):
    """How many an ordinary run of all would measure."""
    return sum(
        c.status not in ("duplicate", "unsupported", "not tried")
        for entry in record.entries
        for c in entry.candidates
    )


def pace_of(cases):
    """Rounds of cases in a second."""
    started = sorted(datetime.fromisoformat(r.started) for c in cases for r in c.rounds)
    return (len(started) - 1) / (started[-1] - started[0]).total_seconds()


def second_graphs(plan, step, wall_s):
    """Every `step`-th graph, as many as there is time for."""
    paths = plan.paths
    each_s = wall_s / len(paths)
    room = plan.left_s - sum(STEPS[name] for name in plan.steps)
    return paths[::step][: max(0, int(room / each_s))]


def compare(first, second, out=None):
    """What two tunings say of the same graphs."""
    known = {entry.fingerprint: entry for entry in first.entries}
    pairs = [(known[e.fingerprint], e) for e in second.entries if e.fingerprint in known]
    pairs = [pair for pair in pairs if all(told(e) for e in pair)]
    strict = within = 0
    claims = []
    for one, two in pairs:
        names = [text(e.candidates[e.winner]) for e in (one, two)]
        strict += names[0] == names[1]
        agree = names[0] == names[1] or (names[0] in equals(two) and names[1] in equals(one))
        within += agree
        if names[0] != names[1]:
            tell(
                f"  {one.name}: {names[0]} ({one.reason}), then {names[1]} ({two.reason}), "
                f"{'within ties' if agree else 'not within ties'}",
                out,
            )
        claims += [math.log(a.time_ns / b.time_ns) for a, b in confirmed_twice(one, two)]
    count = len(pairs)
    tell(
        f"the same winner twice: {strict} of {count} ({share(strict, count)}) strictly, {within} "
        f"({share(within, count)}) within ties",
        out,
    )
    moved = 100 * np.abs(claims)
    tell(
        f"told times of the same plan, {len(moved)} winners and defaults: "
        f"{np.median(moved):.3f} % apart in the median, 95 % within "
        f"{np.percentile(moved, 95):.3f} %, mean {100 * np.mean(claims):+.3f} %",
        out,
    )


def share(part, whole):
    return f"{100 * part / max(1, whole):.0f} %"


def told(entry):
    """Whether anything of the graph was confirmed: some have one way to run, or none."""
    return entry.candidates[entry.winner].time_ns is not None


def equals(entry):
    """The winner, and what is tied with it."""
    return {text(entry.candidates[index]) for index in (entry.winner, *entry.tied_with)}


def text(candidate):
    return " ".join(candidate.variant.values()) or "the default"


def confirmed_twice(one, two):
    """Winner and default of the first tuning, where the second has a time of them too."""
    times = {text(c): c for c in two.candidates if c.time_ns}
    told = {text(one.candidates[i]): one.candidates[i] for i in (one.winner, one.default)}
    return [(c, times[name]) for name, c in told.items() if c.time_ns and name in times]


def regrets(plan, records, data):
    """How much slower winners are than the best plan, where all plans were measured."""
    found = []
    for row in data["graphs"]:
        truth = {
            p["name"]: float(np.nanmean(np.array(p["logs"], float)))
            for p in row["plans"]
            if "logs" in p
        }
        entries = [e for record in records for e in record.entries if e.name == row["name"]]
        for entry in entries if truth else ():
            variant = entry.candidates[entry.winner].variant
            name = " ".join(f"{axis}={value}" for axis, value in sorted(variant.items()))
            if name in truth:
                found.append(math.expm1(truth[name] - min(truth.values())))
    plan.tell(
        f"regret of {len(found)} winners: " + ", ".join(f"{100 * r:.2f}" for r in found) + " %"
    )


def tuned_cost(plan):
    """Runs of all graphs with the record and without, in turns."""
    walls, built = {"plain": [], "tuned": []}, {"plain": [], "tuned": []}
    for turn in ("plain", "tuned", "tuned", "plain"):
        extra = ["--tuned", str(plan.out / "live1.json")] if turn == "tuned" else []
        path = plan.out / f"{turn}.json"
        path.unlink(missing_ok=True)
        begin = time.monotonic()
        words = [*plan.graphs, "--engine", plan.engines[0], *extra, *plan.shared]
        words += ["--rounds", "1", "--iters", "2", "--reference", "none", "-o", str(path)]
        command(*words, "-q")
        walls[turn].append(time.monotonic() - begin)
        cases = [case for case in read(path).cases if case.init]
        built[turn] += [int(c.init["build_ns"][0] + c.init["plan_ns"][0]) / 1e6 for c in cases]
    dearer = 1e3 * (np.mean(walls["tuned"]) - np.mean(walls["plain"])) / len(cases)
    spread = 1e3 * np.mean([np.ptp(w) for w in walls.values()]) / len(cases)
    plan.tell(
        f"--tuned: build and plan {np.mean(built['tuned']):.1f} ms a graph (median "
        f"{np.median(built['tuned']):.1f}) against {np.mean(built['plain']):.1f} (median "
        f"{np.median(built['plain']):.1f}) plain; whole run {dearer:+.1f} ms a graph, where two "
        f"equal runs differ by {spread:.1f}"
    )


def gain_of(entry):
    gain = "" if entry.gain is None else f"{entry.gain.estimate:.4f} x, "
    return f"{entry.name}: {gain}{entry.reason}"


def every_plan(plan, graphs, most):
    room = int((plan.left_s - 5) / EVERY_S)
    some = tuple(graphs[:: max(1, len(graphs) // most)][: max(0, min(most, room))])
    if not some:
        return None
    batch = None if plan.batch is None else int(plan.batch)
    data = measure_all(Asked(some, plan.engines, plan.cache, batch, 8), plan.out)
    save(plan.out / "every.json.gz", data)
    return data


def exhaustive_s(plan, record, rounds=5):
    """What an ordinary run of all plans would take, by the pace of one that is cut off."""
    words = [w for e in plan.engines for w in ("--engine", e)]
    if len(plan.engines) == 1:
        words = ["--engine", f"{plan.engines[0]}:all"]
    path = plan.out / "ordinary.json.gz"
    words += ["--check-budget", "0.02", "--iters", "300", "-q", "-o", str(path)]
    process = subprocess.Popen([*COMMAND, *plan.graphs, *words, *plan.shared])
    try:
        process.wait(max(12.0, min(plan.left_s - 8, 30.0)))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    cases = read(path).cases
    plans, pace = plans_of(record), pace_of(cases)
    whole_s = rounds * plans / pace
    visits = sum(len(case.rounds) for case in cases)
    plan.tell(
        f"an ordinary run of all {plans} plans with as many samples: {visits} visits at "
        f"{pace:.1f} a second, so {whole_s:.0f} s"
    )
    return whole_s


def show(path):
    print(
        subprocess.run(
            [*COMMAND, "tune", "--show", str(path)], capture_output=True, text=True, check=True
        ).stdout,
        flush=True,
    )


def run(plan, every_nth, most):
    first, wall_s = tune(plan, plan.graphs, 1, "--budget", f"{0.65 * plan.seconds:.0f}s")
    again = second_graphs(plan, every_nth, wall_s) if "second" in plan.steps else []
    records, walls = [first], [wall_s]
    with step("the second tuning", plan.out):
        if again:
            left_s = plan.left_s - sum(STEPS[name] for name in plan.steps)
            record, second_s = tune(plan, again, 2, "--budget", f"{max(30, left_s):.0f}s")
            records.append(record)
            walls += [second_s] if len(record.entries) == len(first.entries) else []
            compare(*records, plan.out)
    with step("an ordinary run of all plans", plan.out):
        if plan.left_for("ordinary"):
            whole_s = exhaustive_s(plan, first)
            shares = " and ".join(share(wall, whole_s) for wall in walls)
            plan.tell(f"tunings of all graphs took {shares} of that")
    with step("--tuned", plan.out):
        if plan.left_for("tuned"):
            tuned_cost(plan)
    with step("all plans", plan.out):
        data = every_plan(plan, again or plan.paths, most) if plan.left_for("every") else None
        if data is not None:
            regrets(plan, records, data)
    show(plan.out / "live1.json")


def main():
    given = docopt(__doc__)
    out = Path(given["--out"])
    out.mkdir(parents=True, exist_ok=True)
    graphs = tuple(given["GRAPH"] or [SUITE])
    if given["--take"] is not None:
        graphs = tuple(paths_of(graphs)[: int(given["--take"])])
    plan = Plan(
        graphs,
        tuple(given["--engine"].split(",")),
        given["--cache"],
        given["--batch"],
        out,
        float(given["--seconds"]),
        tuple(given["--steps"].split(",")),
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with step("the first tuning", out):
            run(plan, int(given["--second"]), int(given["--every"]))
    except KeyboardInterrupt:
        tell("interrupted", out)
    print("=" * 78, *answers, sep="\n", flush=True)


if __name__ == "__main__":
    main()
