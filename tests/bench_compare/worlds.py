"""Random compositions as files and words of the command line, with bad news in them or without.

A world is what a person may hand to ``bench-compare``: one to three documents a side on one unit of
hardware or several, ours or another tool's, with samples or only summaries, however they stand
together, and a policy. In a bad one something befalls one case (`bench_compare.comparison`'s
compositions have the list, `MORE` adds to it) and the policy has no right to hide it; in a sound
one everything is of one build, and noise is all there is.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from bench_schema.document import Memory
from bench_schema.files import save
from bench_schema.summary import summarize

from bench_compare.cli import main
from tests.bench_compare.build import H200, case, document, engine, machine, round_, validation
from tests.bench_compare.comparison.compositions import IN_ALL, OF_ONE_ENGINE, SHARED

LEVEL_NS = 1e6
ROUND_SD, SAMPLE_SD = 0.001, 0.002
"""Tiny: a case that takes half as long again stands out of it."""
VICTIM = "g0"
SLOWER = 1.5
COUNTS = (2, 2, 3, 5, 12)
MANY = 12
"""Cases of a suite that has a common movement."""
NEW_UNIT = "GPU-9"


def validated(**changes):
    return lambda one: replace(one, validation=replace(one.validation, **changes))


def outputs(**changes):
    def befall(one):
        changed = tuple(replace(o, **changes) for o in one.validation.outputs)
        return replace(one, validation=replace(one.validation, outputs=changed))

    return befall


def only_summary(one):
    names = dict.fromkeys(name for r in one.rounds for name in r.series)
    rows = {
        name: summarize([r.series[name] for r in one.rounds], [0] * len(one.rounds))
        for name in names
    }
    return replace(one, rounds=(), summary={**one.summary, **rows}, init={})


def summary_of(factor):
    """Nothing but a summary, of times that are so many times as long."""

    def befall(one):
        one = only_summary(one)
        rows = {n: replace(row, median=factor * row.median) for n, row in one.summary.items()}
        return replace(one, summary=rows)

    return befall


def summary_beside_empty_rounds(factor):
    def befall(one):
        rounds = tuple(replace(r, series={}) for r in one.rounds)
        return replace(summary_of(factor)(one), rounds=rounds)

    return befall


MORE = {
    "passed beside mismatches": outputs(mismatched=2),
    "passed, iterations differ": validated(iterations_mismatched=1),
    "iterations no longer checked": validated(iterations_checked=0),
    "elements no longer checked": outputs(elements=3),
}
"""What may befall a case in some documents, beside `SHARED`."""
MORE_IN_ALL = {
    "fewer iterations checked": validated(iterations_checked=3),
    "only summaries, ten times as long": summary_of(10),
    "only summaries, half as long again": summary_of(SLOWER),
    "summaries beside empty rounds": summary_beside_empty_rounds(10),
}
"""The same in all documents of a side."""
SOME = {**SHARED, **MORE}
ALL = {**IN_ALL, **MORE_IN_ALL}
FRESH = {
    "new and crashed": "crashed",
    "new and failed": "failed",
    "new and wrong": "wrong",
    "new and implausible": "implausible",
    "new, passed beside mismatches": "passed beside mismatches",
}
"""A graph that only other has, and what befell it there."""
ONE_SUMMARY, ONE_UNIT, ONE_HOST = (
    f"one document is slower, {how}" for how in ("a summary", "on a new unit", "on a new host")
)
SOME_ROUNDS, UNPAIRED = "rounds on a new unit are slower", "a document of other alone is slower"
NOTHING = "nothing compared: the documents have no case in common"
ALL_SLOWER, NO_CASE, EMPTY = "all slower", "no case", "a document without a case"
LIMITS = {"clocks": {"max_sm_clock_mhz": 1200.0}, "power limit": {"power_limit_w": 450.0}}
ASKED = {"end-to-end": "e2e_ns", "initialisation": "init_ns", "memory": "workspace_bytes"}
"""What counts where ``--fail-on`` names it."""
ONE_SLOW = (ONE_SUMMARY, ONE_UNIT, ONE_HOST, SOME_ROUNDS, UNPAIRED)
BAD = (*SOME, *ALL, *FRESH, *ONE_SLOW, ALL_SLOWER, NO_CASE, EMPTY, *LIMITS, *ASKED)
SLOW = frozenset(
    {"slower", *ONE_SLOW, *(name for name in MORE_IN_ALL if "summaries" in name), *ASKED}
)
BY_LIST = frozenset({*SLOW, "unsupported", "skipped"})
"""Bad news that a policy may leave out of its list."""
CHECKS = frozenset({*OF_ONE_ENGINE, *MORE, "fewer iterations checked"}) - {
    *("passed beside mismatches", "passed, iterations differ"),
}
"""No news where engines are what is compared: they may differ in this."""
NEEDS_SAMPLES = frozenset(
    {
        *("with empty rounds", "without device time", "summaries beside empty rounds"),
        *(*ONE_SLOW, "initialisation"),
    }
)
SEVERAL = frozenset({ONE_SUMMARY, ONE_UNIT, ONE_HOST, EMPTY})
"""That take two documents a side."""
APART = ("labels", "tags", "folders")
"""Layouts in which a document belongs to one side, and a side may have several."""
ONE_RUN = ("engines", "units")
"""Those in which a document holds all sides."""
LAYOUTS = (*APART, *APART, *ONE_RUN, "files", "machines", "imports")
NOT_BESIDE = frozenset({*LIMITS, "another meaning", ONE_UNIT, ONE_HOST, SOME_ROUNDS, EMPTY})
FITS = {
    **dict.fromkeys(APART, frozenset(BAD) - {UNPAIRED}),
    "engines": frozenset(BAD) - CHECKS - NOT_BESIDE,
    "units": frozenset(BAD) - NOT_BESIDE - {"missing", NO_CASE, UNPAIRED, *FRESH},
    "files": frozenset(BAD) - SEVERAL - {UNPAIRED},
    "machines": frozenset(BAD) - {ONE_HOST, UNPAIRED},
    "imports": frozenset(
        {
            *("missing", "crashed", "failed", "unsupported", "wrong", "passed beside mismatches"),
            *("never checked", "slower", "only summaries, ten times as long", "new and failed"),
            *("new and wrong", NO_CASE, ALL_SLOWER),
        }
    ),
}
"""What is bad news in a layout: what not all units have is not compared, and so on."""
IDENTITIES = ("plain", "plain", "tuned", "devices", "engines", "twins", "second engine")
"""How other is called: its plans are tuned, its engine is on another device, is another engine; or
a graph stands twice in each document, or has a second engine that is always well."""
SAMPLING = ("samples", "samples", "samples", "summaries", "mixed", "base", "other")
"""Which documents have samples: all, none, some of each side, or those of base or of other alone
have but summaries."""
SECOND = {
    "not checked": ("lost",),
    "nondeterministic": ("lost",),
    "wrong": ("wrong", "newly-wrong"),
    "inputs changed": ("wrong", "newly-wrong"),
}
"""What may befall a slower case as well and is allowed, and so must not hide that it is slower."""


@dataclass(frozen=True)
class Plan:
    trouble: str | None
    layout: str
    identity: str
    sampling: str
    sizes: tuple[int, ...]
    """Documents of each side, base first."""
    victim: int
    """Side."""
    names: tuple[str, ...]
    rounds: int
    spread: bool
    """Over two units of hardware."""
    second: str | None = None
    """Of `SECOND`."""
    was_broken: bool = False
    """The victim crashed in the first document of base."""

    @property
    def text(self):
        return (
            f"{self.trouble or 'nothing'}, {self.layout}, {self.identity}, {self.sampling}, "
            f"documents {self.sizes}, side {self.victim}, {len(self.names)} cases of "
            f"{self.rounds} rounds{', two units' if self.spread else ''}"
            f"{f', {self.second}' if self.second else ''}{', was broken' * bool(self.was_broken)}"
        )

    @property
    def one_run(self):
        """Whether the sides stand in the same documents."""
        return self.layout in ONE_RUN


def chosen(random, choices):
    return choices[int(random.integers(len(choices)))]


def drawn(random, bad, trouble=None):
    """A plan in which the trouble is bad news."""
    trouble = (trouble or chosen(random, BAD)) if bad else None
    layouts = [one for one in LAYOUTS if trouble is None or trouble in FITS[one]]
    layout = chosen(random, layouts)
    plain = layout in (*ONE_RUN, "imports", "machines")
    identity = "plain" if plain else chosen(random, IDENTITIES)
    if identity == "engines" and trouble in CHECKS:
        identity = "plain"
    if identity == "second engine" and trouble == ALL_SLOWER:
        identity = "plain"  # half of the cases have no common movement
    sampling = "samples" if trouble in NEEDS_SAMPLES else chosen(random, SAMPLING)
    sizes = random.integers(1, 4, chosen(random, (2, 2, 2, 3)))
    sizes = np.maximum(sizes, 2) if trouble in SEVERAL else sizes
    if layout in ("folders", "imports"):
        sizes = sizes[:2]
    if layout == "files":
        sizes[:] = 1
    if layout in ONE_RUN:
        sizes[:] = sizes[0]
    victim = int(random.integers(1, len(sizes)))
    if len(sizes) > 2 and sizes[0] + sizes[victim] == 3 and trouble in ("slower", *ASKED):
        sizes[victim] = sizes[0]  # one degree of freedom among many cases: unclear, which is true
    slow = trouble == "slower" and identity != "engines" and layout != "engines"
    return Plan(
        trouble=trouble,
        layout=layout,
        identity=identity,
        sampling=sampling,
        sizes=tuple(int(one) for one in sizes),
        victim=victim,
        names=tuple(
            f"g{n}" for n in range(MANY if trouble == ALL_SLOWER else chosen(random, COUNTS))
        ),
        rounds=int(random.integers(3, 6)),
        spread=layout in APART and trouble not in ONE_SLOW and bool(random.random() < 0.3),
        second=chosen(random, tuple(SECOND)) if slow and random.random() < 0.4 else None,
        was_broken=trouble == "slower" and sizes[0] > 1 and bool(random.random() < 0.3),
    )


def befallen(random, plan):
    """What befalls the victim in each document of each side."""
    found = {(s, n): [] for s, size in enumerate(plan.sizes) for n in range(size)}
    base, mine = plan.sizes[0], plan.sizes[plan.victim]
    if plan.trouble in SOME:
        shares = [(b, o) for b in range(base) for o in range(1, mine + 1) if o * base > b * mine]
        for s, many in zip((0, plan.victim), chosen(random, shares), strict=True):
            for n in random.permutation(plan.sizes[s])[:many]:
                found[s, int(n)].append(SOME[plan.trouble])
    for (s, n), befalls in found.items():
        if s == plan.victim and ALL.get(plan.trouble) is not None:
            befalls.append(ALL[plan.trouble])
        if plan.trouble in FRESH:
            befalls.append(SOME[FRESH[plan.trouble] if s == plan.victim else "missing"])
        if plan.trouble == ONE_SUMMARY and (s, n) == (plan.victim, 0):
            befalls.append(summary_of(SLOWER))
        if plan.second and (s, n) == (plan.victim, 0):
            befalls.append(SOME[plan.second])
        if plan.was_broken and (s, n) == (0, 0):
            befalls.append(SOME["crashed"])
    return found


def factors(plan, s, n, name, better):
    """Of device time, end-to-end time and initialisation."""
    times = 0.7 if (s, name) in better else 1.0
    if s != plan.victim:
        return times, times, 1.0
    if plan.trouble == ALL_SLOWER:
        return 1.1, 1.1, 1.0
    if name != VICTIM:
        return times, times, 1.0
    if plan.trouble == "slower" or (plan.trouble in (ONE_UNIT, ONE_HOST) and n == 0):
        return SLOWER, SLOWER, 1.0
    slow = {"end-to-end": (1.0, SLOWER, 1.0), "initialisation": (1.0, 1.0, SLOWER)}
    return slow.get(plan.trouble, (1.0, 1.0, 1.0))


def noise(random, sd, *shape):
    return np.exp(random.normal(0, sd, shape))


def measured(random, plan, name, key, times=(1.0, 1.0, 1.0)):
    """A case of which all is well."""
    shape = plan.rounds, 12
    level = LEVEL_NS * noise(random, ROUND_SD, plan.rounds, 1) * noise(random, SAMPLE_SD, *shape)
    series = {"device_ns": level * times[0], "e2e_ns": level * times[1] + 9000}
    whole = {name: np.rint(values).astype(np.int64) for name, values in series.items()}
    rounds = [round_(n, {name: rows[n] for name, rows in whole.items()}) for n in range(shape[0])]
    sound = validation()
    sound = replace(
        sound,
        outputs=(*sound.outputs, replace(sound.outputs[0], uid=2, name="z")),
        deterministic=True,
        iterations_checked=int(random.integers(8, 13)),
        iterations_poisoned=5,
        inputs_unchanged=True,
    )
    init = np.rint(1e6 * times[2] * noise(random, SAMPLE_SD, plan.rounds)).astype(np.int64)
    memory = Memory(None, 64, None)
    return case(name, rounds, engine=key, validation=sound, init={"plan_ns": init}, memory=memory)


def with_slow_rounds(one):
    """As many rounds again, on a unit of their own."""
    count = len(one.rounds)
    more = [
        replace(
            r,
            index=count + r.index,
            device_uuid=NEW_UNIT,
            series={
                name: np.rint(SLOWER * rows).astype(np.int64) for name, rows in r.series.items()
            },
        )
        for r in one.rounds
    ]
    init = {name: np.concatenate([rows, rows]) for name, rows in one.init.items()}
    return replace(one, rounds=(*one.rounds, *more), init=init)


def has_samples(plan, s, n):
    if plan.sampling == "mixed":
        return n % 2 == 0
    return {"samples": True, "summaries": False, "base": s != 0, "other": s == 0}[plan.sampling]


def key_of(plan, s):
    if plan.layout == "engines" or plan.identity == "engines":
        return f"planner{s}"
    if plan.layout == "units" or plan.identity == "devices":
        return f"planner+device={s}"
    return "planner"


def with_more_memory(one):
    return replace(one, memory=Memory(None, 128, None))


ODD = {
    (SOME_ROUNDS, False): with_slow_rounds,
    ("memory", False): with_more_memory,
    ("memory", True): with_more_memory,
}
"""What the victim is like, by the trouble, and whether it is another document than the first."""


def cases_of(random, plan, place, befalls, better):
    """Of one side in one document."""
    s, n = place
    if s == plan.victim and (plan.trouble == NO_CASE or (plan.trouble == EMPTY and n == 0)):
        return
    for name in plan.names:
        one = measured(random, plan, name, key_of(plan, s), factors(plan, s, n, name, better))
        if name == VICTIM and s == plan.victim:
            one = ODD.get((plan.trouble, n > 0), lambda same: same)(one)
        if not has_samples(plan, s, n):
            one = only_summary(one)
        if plan.identity == "tuned" and s:
            one = replace(one, variant={"plan": "eng5"}, notes=("tuned: eng5",))
        if name == plan.names[-1] and ("broken", name) in better:
            one = SHARED["crashed"](one)  # on all sides: no news
        for befall in befalls if name == VICTIM else ():
            one = befall(one) if one is not None and one.outcome.status == "completed" else one
        if one is not None:
            yield one
        yield from beside(random, plan, name, s)


def beside(random, plan, name, s):
    """Cases of the same graph, of which all is well."""
    if name == VICTIM and plan.identity == "twins":
        twin = measured(random, plan, name, key_of(plan, s))
        yield replace(twin, graph=replace(twin.graph, path=f"elsewhere/{name}.json"))
    if plan.identity == "second engine":
        yield measured(random, plan, name, "sound")


def unit_of(plan, s, n):
    if plan.layout == "units":
        return f"GPU-{s}"
    if (s, n) == (plan.victim, 0) and plan.trouble == ONE_UNIT:
        return NEW_UNIT
    return f"GPU-{n % 2}" if plan.spread else "GPU-0"


def host_of(plan, s, n):
    if (s, n) == (plan.victim, 0) and plan.trouble == ONE_HOST:
        return "new"
    return f"host {s}" if plan.layout == "machines" else "host"


def made(random, plan, sides, n, cases):
    """A document that holds these sides."""
    s = sides[0]
    changed = LIMITS.get(plan.trouble, {}) if s == plan.victim else {}
    name = "all" if len(sides) > 1 else f"side {s}"
    engines = [
        engine(key_of(plan, s), name="planner", device=unit_of(plan, s, n), device_kind="H200")
        for s in sides
    ]
    if plan.identity == "second engine":
        engines.append(engine("sound", device=unit_of(plan, s, n), device_kind="H200"))
    units = dict.fromkeys(one.device for one in engines)
    if plan.trouble == SOME_ROUNDS:
        units[NEW_UNIT] = None
    devices = [replace(H200, index=i, uuid=unit, **changed) for i, unit in enumerate(units)]
    return document(
        cases,
        label=None if plan.layout == "files" else name,
        run_id=f"run {name} {n} {random.integers(1 << 40)}",
        engines=engines,
        machine=replace(machine(host_of(plan, s, n)), devices=tuple(devices)),
        tags={"branch": name},
    )


# Files of another tool.


def correctness(one):
    checked = one.validation
    if checked is None or checked.status == "not checked":
        return None
    wrong = max(output.mismatched for output in checked.outputs) if checked.outputs else 0
    match = checked.status == "passed"
    return {"match": match, "max_abs_diff": 2e-4, "n_total": 9, "n_mismatch": wrong}


def row_of(one):
    status = {"completed": "success", "unsupported": "skipped"}.get(one.outcome.status, "error")
    row = {
        "runtime": "hipdnn",
        "engine": {"id": "0xA2", "name": "MIOPEN_ENGINE", "version": "1.0.3"},
        "status": status,
        "message": one.outcome.reason,
        "oracle": None,
    }
    if status == "success":
        median_ms = one.summary["device_ns"].median / 1e6
        row["ootb"] = {
            "kernel": {"p25_ms": median_ms, "median_ms": median_ms, "p75_ms": median_ms, "n": 60},
            "timing": {"mode": "staged", "timer": "hip", "samples": 60},
            "correctness": correctness(one),
        }
    return row


def foreign(cases, number):
    graphs = [
        {
            "graph_id": f"id of {one.graph.name}",
            "graph_name": one.graph.name,
            "graph_path": f"graphs/{one.graph.name}.json",
            "status": "ok",
            "results": [row_of(one)],
        }
        for one in cases
    ]
    return {
        "schema_version": 2,
        "tool": {"name": "dnn-benchmarking", "version": "0.4.0"},
        "run": {
            "started_at": f"2026-09-10T08:00:{number:02}+00:00",
            "config": {"cache_mode": "warm"},
        },
        "environment": {"hostname": "node7", "gpu_model": "MI300X"},
        "graphs": graphs,
    }


# Files and words.


def written(random, plan, folder):
    """Files of each side, or of all sides together, in the order of the words."""
    hit = befallen(random, plan)
    places = [(s, name) for s in range(1, len(plan.sizes)) for name in plan.names[1:]]
    may_be_better = plan.trouble not in (None, ALL_SLOWER)
    better = {place for place in places if may_be_better and random.random() < 0.3}
    if plan.trouble != ALL_SLOWER and random.random() < 0.2:
        better.add(("broken", plan.names[-1]))
    found: dict[int, list[Path]] = {}
    if plan.one_run:
        sides = list(range(len(plan.sizes)))
        for n in range(plan.sizes[0]):
            of_side = [cases_of(random, plan, (s, n), hit[s, n], better) for s in sides]
            one = made(random, plan, sides, n, [case for cases in of_side for case in cases])
            found.setdefault(0, []).append(kept(folder / f"{n}.json", one))
        if plan.trouble == UNPAIRED:
            slow = replace(plan, trouble="slower")
            cases = list(cases_of(random, slow, (plan.victim, 9), [], better))
            one = made(random, slow, [plan.victim], 9, cases)
            found[0].append(kept(folder / "9.json", one))
        return found
    for number, (s, n) in enumerate(hit):
        cases = list(cases_of(random, plan, (s, n), hit[s, n], better))
        path = folder / f"side{s}" / f"{n}.json"
        path.parent.mkdir(exist_ok=True)
        if plan.layout == "imports":
            summaries = [
                only_summary(one) if one.outcome.status == "completed" else one for one in cases
            ]
            path.write_text(json.dumps(foreign(summaries, number)))
        else:
            save(path, made(random, plan, [s], n, cases))
        found.setdefault(s, []).append(path)
    return found


def kept(path, made):
    save(path, made)
    return path


GROUPED = {"engines": "engine", "units": "unit", "tags": "tag:branch", "machines": "machine"}


def words_of(random, plan, files):
    """How the documents stand together."""
    if plan.layout in ("folders", "imports"):
        sides = [[str(one) for one in files[s]] for s in (0, plan.victim)]
        if random.random() < 0.5:
            sides = [[str(Path(some[0]).parent)] for some in sides]
        elif random.random() < 0.5:
            sides = [[f"{Path(some[0]).parent}/*.json"] for some in sides]
        flags = zip(("--a", "--b"), sides, strict=True)
        return [word for flag, some in flags for name in some for word in (flag, name)]
    every = [str(path) for some in files.values() for path in some]
    words = ["--group-by", GROUPED[plan.layout]] if plan.layout in GROUPED else []
    if plan.layout in ("labels", "tags", "machines") and random.random() < 0.3:
        random.shuffle(every)
        words += ["--base", "host 0" if plan.layout == "machines" else "side 0"]
    if plan.layout == "files" and random.random() < 0.5:
        words += ["--group-by", "file"]
    return [*every, *words]


def policy_of(random, plan, folder):
    """Flags that have no right to hide the trouble."""
    trouble, words = plan.trouble, counting(random, plan)
    for pattern in allowances(plan):
        if random.random() < 0.1:
            words += ["--allow", pattern]
    for verdict in SECOND.get(plan.second, ()):
        words += ["--allow", f"{VICTIM}={verdict}"]
    if trouble != ALL_SLOWER and trouble not in ASKED and random.random() < 0.3:
        words += ["--threshold", chosen(random, ["2%", "20%", "0.4", "init_ns=30%"])]
    if random.random() < 0.2:
        path = folder / "policy.toml"
        rules = '[[graph]]\nname = "g[1-9]*"\nthreshold = "90%"\n'
        rules = "" if trouble == ALL_SLOWER else rules
        path.write_text(f'allow = ["h*", "c*"]\nfail-on = ["init_ns"]\n{rules}')
        words += ["--policy", str(path)]
    if trouble not in BY_LIST | {ALL_SLOWER} and random.random() < 0.1:
        words += ["--metric", chosen(random, ["device_ns", "e2e_ns", "max_error"])]
    for flag, share in DOUBTS.items():
        if trouble != "another meaning" and random.random() < share:
            words += flag.split()
    return words


def counting(random, plan):
    """A list of what counts, in which the trouble is."""
    metric = ASKED.get(plan.trouble)
    if metric is not None:
        return ["--fail-on", chosen(random, (metric, f"only:{metric},clock"))]
    if random.random() >= 0.4:
        return []
    listed = plan.trouble in BY_LIST
    return ["--fail-on", chosen(random, ADDING if listed else (*ADDING, *REPLACING))]


DOUBTS = {
    "--allow-no-answer": 0.2,
    "--strict": 0.05,
    "--max-unclear 50%": 0.05,
    "--require-sensitivity 20%": 0.05,
}


ADDING = (
    "init_ns",
    "clock",
    "peak_bytes,worse",
    "incomparable",
    "only:slower,suite,newly-unsupported",
)
REPLACING = ("none", "only:init_ns", "only:slower", "only:peak_bytes,clock")


def allowances(plan):
    """Patterns that name no graph, or another one, or allow the victim something else."""
    yield from ("c*", "c0001", "c000?=slower", "s*", "h*", "planner*", "lost")
    if plan.trouble not in (ALL_SLOWER, NO_CASE, EMPTY):
        yield from ("g[1-9]*", "g1=slower")
    if plan.trouble in SOME or plan.trouble in FRESH:
        yield from (f"{VICTIM}=slower", f"{VICTIM}=clock", "suite")


@dataclass(frozen=True)
class World:
    seed: int
    plan: Plan
    words: tuple[str, ...]
    code: int
    said: str

    @property
    def text(self):
        return f"seed {self.seed}: {self.plan.text}: exits {self.code}; {' '.join(self.words)}"


def answered(seed, bad, folder, trouble=None, loud=False):
    """A world, and what the command says to it; its files are in `folder` until the next one."""
    random = np.random.default_rng((seed, bad))
    plan = drawn(random, bad, trouble)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = words_of(random, plan, written(random, plan, folder))
    words += policy_of(random, plan, folder)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main([*words, "--all" if loud else "-q", "--json", str(folder / "answer.json")])
    return World(seed, plan, tuple(words), code, said.getvalue())


def violations(seeds, bad, folder, trouble=None):
    """Bad news that exits 0, no news that exits 2, and whatever exits otherwise."""
    wanted = (1, 2) if bad else (0, 1)
    worlds = (answered(seed, bad, folder, trouble) for seed in seeds)
    return [
        world.text for world in worlds if world.code not in wanted and not _nothing_compared(world)
    ]


def _nothing_compared(world):
    """``--allow-no-answer`` accepts that two documents have no case in common, whose cases then
    look removed and are not."""
    return world.code == 0 and "--allow-no-answer" in world.words and NOTHING in world.said
