"""Tuning on a real device against the exhaustive measurement of every plan.

    python tests/benchmarks/tune_gpu.py exhaustive --out DIR [--seconds 420] [--blocks 24]
    python tests/benchmarks/tune_gpu.py live --out DIR [--seconds 500] [--times 2]
    python tests/benchmarks/tune_gpu.py replay FILE

`exhaustive` builds every plan of every graph once and visits each in every block; none is dropped.
It writes `exhaustive.json.gz`: of each plan what was found when it was built and the median of each
block, which `replay` and the tests race over again. Beside that it runs the same plans as an
ordinary run would, five fresh rounds of each, for as long as there is time, to know what that
takes. `live` tunes twice, compares both with the exhaustive measurement in the same folder, and
with an ordinary run of the winners. On a machine without a GPU: `--engine numpy,torch --graphs
suite:smoke`, which tunes over engines.
"""

from __future__ import annotations

import argparse  # a script, not a command
import gzip
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench_schema.files import read
from bench_schema.tuning_files import tuned_read

from bench_run.options import Options
from bench_run.runner.planning import outline_run
from bench_run.runner.references import ReferenceStore
from bench_run.tune.candidates import Lister, tuned_engines
from bench_run.tune.decide import rank_candidates
from bench_run.tune.fates import fates_of
from bench_run.tune.heats import Visit, choose_finalists, run_all, run_race
from bench_run.tune.journal import TuneJournal
from bench_run.tune.race import RaceSettings
from bench_run.tune.record import round_logs
from bench_run.tune.session import Effort, Means, Session
from bench_run.tune.settings import Tuning, run_options
from bench_run.tune.space import parse_space
from bench_run.worker.pool import WorkerPool

SAMPLES = 30
ROOM_BYTES = 24 << 30
COMMAND = [sys.executable, "-m", "bench_run"]


def tuning_of(asked):
    engines = asked.engine.split(",")
    if len(engines) > 1:
        return parse_space([f"engine={asked.engine}"], []), engines
    return parse_space(["plan=all"], engines), engines


def exhaustive(asked, out):
    space, _ = tuning_of(asked)
    tuning = Tuning(space=space, record=str(out / "exhaustive"), cache=asked.cache)
    plain = Options(graphs=tuple(asked.graphs), quiet=True, scale_batch=asked.batch)
    options = run_options(plain, tuning)
    outline, pool = outline_run(options), WorkerPool(300.0, {})
    specs = [engine.spec.text for engine in outline.engines]
    engines = tuned_engines(options, space, specs)
    known = {engine.key: engine for engine in engines}
    references = ReferenceStore(options, known)
    lister = Lister(replace(space, engines=tuple(specs)), engines[0], engines, pool)
    references.announce((graph, "auto") for graph in outline.graphs)
    journal = TuneJournal(tuning.record, {}, resume=False)
    begin, rows, effort = time.monotonic(), [], Effort()
    try:
        for number, graph in enumerate(outline.graphs):
            if time.monotonic() - begin > 0.8 * asked.seconds:
                print(f"out of time: {number} of {len(outline.graphs)} graphs", flush=True)
                break
            found = lister.options(graph)
            means = Means(pool, references, options, journal, ROOM_BYTES, effort)
            session = Session(f"{number}", found, means)
            row = measured(graph, found, session, asked, begin, len(outline.graphs) - number)
            rows.append(row)
            session.close()
            print(
                f"{time.monotonic() - begin:6.1f} s  {graph.id.name}: {len(row['plans'])} plans, "
                f"{row['blocks']} blocks, built in {row['build_s']:.1f} s",
                flush=True,
            )
    finally:
        facts = {key: opened.facts for key, opened in pool.opened.items()}
        pool.kill()
        references.close()
        journal.close(done=True)
    took = time.monotonic() - begin
    machine = next(iter(facts.values()))
    data = {
        "device": machine.device_kind, "unit": machine.device,
        "libraries": dict(machine.libraries), "samples": SAMPLES, "cache": asked.cache,
        "graphs": rows, "seconds": round(took, 1),
    }  # fmt: skip
    ordinary = ordinary_run(asked, out, asked.seconds - took)
    save(out, {**data, "ordinary": ordinary})
    plans = sum(len(row["plans"]) for row in rows)
    print(
        f"exhaustive: {len(rows)} graphs, {plans} plans, {took:.0f} s in one process; as an "
        f"ordinary run {ordinary['visits']} of {ordinary['of']} visits in "
        f"{ordinary['seconds']:.0f} s, so all of them {ordinary['whole_s']:.0f} s"
    )


def measured(graph, options, session, asked, begin, left):
    """All plans of a graph in blocks: at least 8, as many as the time allows."""
    import bench_schema.tuning

    start = time.monotonic()
    fates = fates_of(options, session, bench_schema.tuning.Limits(), lambda: False)
    built = time.monotonic() - start
    share = max(1.0, (0.75 * asked.seconds - (time.monotonic() - begin)) / left)
    end = time.monotonic() + share
    entered = [i for i, fate in enumerate(fates) if fate.status == "ok"]
    deviations, costs = [], []

    def measure(wanted, samples):
        visits = session.measure([entered[r] for r in wanted], samples)
        deviations.extend(v.deviation for v in visits.values())
        costs.extend(v.cost for v in visits.values())
        return {r: visits[entered[r]] for r in wanted if entered[r] in visits}

    done = 0

    def over():
        nonlocal done
        done += 1
        return done >= 8 and time.monotonic() > end

    state = run_all(len(entered), measure, over, blocks=asked.blocks, samples=SAMPLES)
    plans = []
    for index, (option, fate) in enumerate(zip(options, fates, strict=True)):
        row = {"name": option.key, "status": fate.status}
        if index in entered:
            logs = state.logs[entered.index(index)]
            row |= {
                "error": fate.error, "deterministic": fate.deterministic,
                "workspace": fate.workspace_bytes,
                "logs": [None if math.isnan(v) else round(float(v), 5) for v in logs],
            }  # fmt: skip
        plans.append(row)
    return {
        "name": graph.id.name, "repeat": graph.loaded.repeat, "plans": plans,
        "blocks": state.blocks, "build_s": built,
        "deviation": float(np.median(deviations)) if deviations else 0.0,
        "cost": float(np.median(costs)) if costs else 0.0,
    }  # fmt: skip


def ordinary_run(asked, out, seconds):
    """The same plans as an ordinary run, cut off where the time is over."""
    engines = asked.engine.split(",")
    words = [w for e in engines for w in ("--engine", e if len(engines) > 1 else f"{e}:all")]
    path = out / "ordinary.json.gz"
    for old in out.glob("ordinary.json*"):
        old.unlink()
    begin = time.monotonic()
    process = subprocess.Popen(
        [
            *COMMAND,
            *asked.graphs,
            *scaled(asked),
            *words,
            "--cache",
            asked.cache,
            "-o",
            str(path),
            "-q",
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        process.wait(max(20.0, seconds))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    took = time.monotonic() - begin
    cases = read(path).cases if path.exists() else ()
    done = sum(len(case.rounds) or (case.outcome.status != "completed") for case in cases)
    ended = sum(case.outcome.status != "completed" for case in cases)
    listed = max(len(cases), 1)
    whole = (
        done if done >= 5 * (listed - ended) + ended else max(done, 5 * (listed - ended) + ended)
    )
    rounds = {
        case.id: {"variant": dict(case.variant), "graph": case.graph.name,
                  "logs": [round(float(v), 5) for v in round_logs(case)]}
        for case in cases if case.rounds
    }  # fmt: skip
    return {"seconds": round(took, 1), "visits": done, "of": whole,
            "whole_s": round(took * whole / max(done, 1), 1), "cases": rounds}  # fmt: skip


def save(out, data):
    path = out / "exhaustive.json.gz"
    path.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9))
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def load(path):
    return json.loads(gzip.decompress(Path(path).read_bytes()))


def truth_of(row):
    """Mean log of each plan that ran, over all of its blocks; and its noise."""
    known = {p["name"]: np.array(p["logs"], float) for p in row["plans"] if "logs" in p}
    return {name: float(np.nanmean(logs)) for name, logs in known.items()}


def replayed(row, seed, margin=0.005):
    """The race over stored blocks, drawn with replacement: which plan is preferred, by name."""
    plans = [p for p in row["plans"] if "logs" in p and None not in p["logs"]]
    facts = {i: (p["deterministic"], p["error"], p["workspace"]) for i, p in enumerate(plans)}
    logs = np.array([p["logs"] for p in plans])
    default = next((i for i, p in enumerate(plans) if p["name"] == ""), 0)
    ranks = rank_candidates(facts, default)
    draw, used = np.random.default_rng(seed), 0

    def measure(rows, samples):
        nonlocal used
        used += len(rows) * samples
        block = draw.integers(logs.shape[1])
        noise = row["deviation"] * math.sqrt(max(0.0, math.pi / 2 * (1 / samples - 1 / SAMPLES)))
        return {r: Visit(float(logs[r, block] + noise * draw.standard_normal()), row["deviation"],
                         row["cost"]) for r in rows}  # fmt: skip

    order = [ranks[i] for i in range(len(plans))]
    state = run_race(len(order), default, measure, RaceSettings(margin=math.log1p(margin)))
    finalists, tied = choose_finalists(state, np.array(order), default, math.log1p(margin))
    return {
        "winner": plans[finalists[0]]["name"], "tied": [plans[t]["name"] for t in tied],
        "samples": used, "of": len(plans),
    }  # fmt: skip


def replay(path, seeds=20):
    data = load(path)
    regrets, agree, same, share = [], [], [], []
    for row in data["graphs"]:
        if len(truth_of(row)) < 2:
            continue
        truth = truth_of(row)
        best = min(truth.values())
        runs = [replayed(row, seed) for seed in range(seeds)]
        regrets += [math.expm1(truth[run["winner"]] - best) for run in runs]
        pairs = list(zip(runs[::2], runs[1::2], strict=True))
        same += [a["winner"] == b["winner"] for a, b in pairs]
        agree += [a["winner"] in {b["winner"], *b["tied"]} for a, b in pairs]
        share += [run["samples"] / (run["of"] * 5 * 100) for run in runs]
    print(f"replayed {len(data['graphs'])} graphs, {seeds} times each, on {data['device']}:\n"
          f"  regret: mean {100 * np.mean(regrets):.3f} %, 95 % of them up to "
          f"{100 * np.percentile(regrets, 95):.3f} %, largest {100 * max(regrets):.3f} %\n"
          f"  the same winner twice: {100 * np.mean(same):.1f} %; the same or tied: "
          f"{100 * np.mean(agree):.1f} %\n"
          f"  samples, in those of an exhaustive run: {100 * np.mean(share):.0f} %")  # fmt: skip
    return regrets, same, agree


def live(asked, out):
    engines = asked.engine.split(",")
    space = [f"engine={asked.engine}"] if len(engines) > 1 else ["plan=all"]
    chosen = [] if len(engines) > 1 else ["--engine", engines[0]]
    records, walls = [], []
    for number in range(1, asked.times + 1):
        begin = time.monotonic()
        words = [*asked.graphs, *scaled(asked), *chosen, "--space", *space, "-q"]
        words += ["--cache", asked.cache, "--check-budget", "0.02"]
        budget = ["--budget", f"{asked.seconds * 0.4:.0f}s"]
        subprocess.run([*COMMAND, "tune", *words, *budget, "--seed", str(number),
                        "-o", str(out / f"live{number}.json")], check=True)  # fmt: skip
        walls.append(time.monotonic() - begin)
        records.append(tuned_read(out / f"live{number}.json"))
        print(f"tuning {number}: {walls[-1]:.0f} s, {records[-1].cost}", flush=True)
    if len(records) > 1:
        compare(records[:2], walls, out)
    print(subprocess.run([*COMMAND, "tune", "--show", str(out / "live1.json")],
                         capture_output=True, text=True, check=True).stdout)  # fmt: skip
    if len(records) > 1:
        tuned_cost(asked, out, chosen)


def scaled(asked):
    return [] if asked.batch is None else ["--scale-batch", str(asked.batch)]


def compare(records, walls, out):
    """Claims against the other tuning's and, where it is there, the exhaustive measurement."""
    first, second = records
    claims, same, tied = [], [], []
    for a, b in zip(first.entries, second.entries, strict=True):
        one, two = (e.candidates[e.winner] for e in (a, b))
        same.append(one.variant == two.variant)
        equals = [b.candidates[i].variant for i in (b.winner, *b.tied_with)]
        tied.append(one.variant in equals)
        again = [c for c in b.candidates if c.variant == one.variant and c.time_ns]
        if one.time_ns and again:
            claims.append(one.time_ns / again[0].time_ns - 1)
    print(f"the same winner twice: {sum(same)} of {len(same)}; the same or tied: {sum(tied)}")
    if claims:
        print(f"claimed against measured by the other tuning: median "
              f"{100 * np.median(np.abs(claims)):.3f} %, mean {100 * np.mean(claims):+.3f} %, "
              f"95 % within {100 * np.percentile(np.abs(claims), 95):.3f} %")  # fmt: skip
    path = out / "exhaustive.json.gz"
    if not path.exists():
        print("no exhaustive.json.gz in this folder: no regrets")
        return
    data = load(path)
    regrets = []
    for record in records:
        rows = zip(record.entries, data["graphs"], strict=False)
        regrets += [regret for entry, row in rows if (regret := regret_of(entry, row)) is not None]
    print(
        f"regret against the exhaustive measurement: mean {100 * np.mean(regrets):.3f} %, 95 % of "
        f"them up to {100 * np.percentile(regrets, 95):.3f} %, largest {100 * max(regrets):.3f} %"
    )
    whole_s = data["ordinary"]["whole_s"]
    print(
        f"wall time: {np.mean(walls):.0f} s; an exhaustive ordinary run {whole_s:.0f} s: "
        f"{100 * np.mean(walls) / whole_s:.0f} %"
    )


def regret_of(entry, row):
    truth = truth_of(row)
    winner = entry.candidates[entry.winner]
    name = " ".join(f"{axis}={value}" for axis, value in sorted(winner.variant.items()))
    if entry.name != row["name"] or name not in truth:
        return None
    return math.expm1(truth[name] - min(truth.values()))


def tuned_cost(asked, out, chosen):
    """Initialisation of a plain run and of one with ``--tuned``, each twice in turn."""
    spent = {"plain": [], "tuned": []}
    walls = {"plain": [], "tuned": []}
    for turn in ("plain", "tuned", "tuned", "plain"):
        extra = ["--tuned", str(out / "live1.json")] if turn == "tuned" else []
        path = out / f"{turn}.json"
        path.unlink(missing_ok=True)
        begin = time.monotonic()
        words = [*asked.graphs, *scaled(asked), *chosen, *extra, "--cache", asked.cache, "-q"]
        words += ["--rounds", "1", "--iters", "5", "--reference", "none", "-o", str(path)]
        subprocess.run([*COMMAND, *words], check=True)
        walls[turn].append(time.monotonic() - begin)
        cases = read(path).cases
        spent[turn].append(np.mean([int(c.init["build_ns"][0] + c.init["plan_ns"][0]) / 1e6
                                    for c in cases if c.init]))  # fmt: skip
    count = max(1, len(cases))
    dearer = 1e3 * (np.mean(walls["tuned"]) - np.mean(walls["plain"])) / count
    print(
        f"--tuned: build and plan {np.mean(spent['tuned']):.1f} ms a graph against "
        f"{np.mean(spent['plain']):.1f} ms plain; whole run {dearer:+.1f} ms a graph"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("exhaustive", "live", "replay"))
    parser.add_argument("file", nargs="?")
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--batch", type=int, help="reduce every batch to this")
    parser.add_argument("--times", type=int, default=2, help="tunings of `live`")
    parser.add_argument("--engine", default="cudnn")
    parser.add_argument("--cache", default="rotate")
    parser.add_argument("--graphs", nargs="+", default=["suite:resnet50-batch32"])
    asked = parser.parse_args()
    if asked.what == "replay":
        replay(asked.file)
        return
    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    (exhaustive if asked.what == "exhaustive" else live)(asked, out)


if __name__ == "__main__":
    main()
