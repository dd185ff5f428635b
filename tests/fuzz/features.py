"""Features that meet: a table of them, and what must hold whenever some are used together.

Each row is an option (or a command that comes after a run) with its values and with what the
document then has to say. A combination is run on tiny graphs; `problems` says what does not hold of
what came out. A sentence of refusal is an answer: `REFUSED` has the sets of features that are, with
their sentence.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import os
import random
import re
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import jsonschema
from bench_schema import files
from bench_schema.journal import Journal, journal_path

from bench_compare.cli import main as bench_compare
from bench_run.cli import main as bench_run

SCHEMA = Path(__file__).parents[2] / "schema" / "bench_schema" / "versions" / "v3.json"
ADD = "add: dims=4x8"
BASE = {"graphs": ("--op", ADD), "engine": ("-e", "numpy"), "rounds": ("--rounds", "1")}
BASE |= {"iters": ("-i", "3"), "warmup": ("-w", "0"), "output": ("-o", "run.json")}
"""Words of every run, by feature: a feature of this name takes the place."""

KERNELS = """def add(x, b): return x + b
def mul(x, b): return x * b
def matmul(a, b): return a @ b
"""
WRONG = KERNELS.replace("x + b", "x - b")
CASE = """INPUTS = {"x": ("n", "n")}
SHAPES = {"small": {"n": 4}}
def reference(x): return x * 2
"""
SUITE = (
    'about = "two"\n[[graph]]\nop = "mul: dims=4x8"\n[[graph]]\nrepeat = 2\nop = "add: dims=4x8"\n'
)
CONFIG = 'label = "of the file"\nseed = 7\n'
POLICY = 'fail-on = ["slower"]\n'
OBSERVER = """
class Observer:
    def results(self):
        return {"mine": 0.5}
"""
FILES = {
    "k.py": KERNELS,
    "wrong.py": WRONG,
    "case.py": CASE,
    "two.toml": SUITE,
    "mine.py": OBSERVER,
}
FILES |= {"c.toml": CONFIG, "policy.toml": POLICY}


@dataclass(frozen=True)
class Feature:
    """An option with its values, or a command after the run."""

    name: str
    values: tuple[str, ...]
    """Words of each value."""
    holds: object = None
    """What a document has to say: a setting's name and value, or a function of the document."""
    kind: str = "run"
    """``run`` and ``compare`` give words to that command, ``after`` is a command of its own."""
    place: str | None = None
    """The words of every run that it takes the place of."""
    wrong: bool = False
    """True if outputs are wrong on purpose."""
    only: tuple[str, ...] | None = None
    """The features that it meets, where it takes no words of the others."""


def setting(name, value):
    return lambda tree: tree["run"]["settings"][name] == value


def of_a_case(test):
    return lambda tree: any(map(test, tree["cases"]))


def named(*names):
    return lambda tree: set(names) <= {case["graph"]["name"] for case in tree["cases"]}


def begins(start):
    return of_a_case(lambda case: case["graph"]["name"].startswith(start))


def once(tree):
    keys = [(c["graph"]["name"], c["engine"], str(c["variant"])) for c in tree["cases"]]
    return len(keys) == len(set(keys))


def observed(tree):
    rounds = [one for case in tree["cases"] for one in case["rounds"]]
    return all(one["extra"]["mine"]["value"] == 0.5 for one in rounds)


def wrote(name):
    return lambda _tree: Path(name).exists()


def each_round(test):
    return lambda tree: all(map(test, (r for case in tree["cases"] for r in case["rounds"])))


def unchecked(tree):
    """Adversarial inputs have a reference of their own."""
    found = [c["validation"] for c in tree["cases"] if c["validation"]]
    return all(
        one["status"] == "not checked" or one["reason"].startswith("adversarial: ") for one in found
    )


def retyped(tree):
    """Of ``--op``; the graphs of a suite have types of their own, which is said."""
    made = {"half", "double"} & {case["graph"]["data_type"] for case in tree["cases"]}
    return bool(made) or named("two")(tree) or begins("mul_4x8")(tree)


def configured(tree):
    run = tree["run"]
    return run["label"] in ("of the file", "mine") and run["settings"]["seed"] in (7, 3)


def initialized(tree):
    """Golden inputs are not filled; both sides of a pair may have them without being compared with
    golden outputs."""
    references = {c["validation"]["reference"] for c in tree["cases"] if c["validation"]}
    init = tree["run"]["settings"]["init"]
    if Path("gold").is_dir() and references != {"golden"} and not init:
        return references == {"none", "numpy"}
    return init == ([] if references == {"golden"} else ["uniform:0:1"])


def attacked(tree):
    every = [(case["notes"], (case["validation"] or {}).get("reason")) for case in tree["cases"]]
    return "adversarial: " in str(every)


RUN = (
    Feature("second graph", ("--op=matmul:;m=4;n=4;k=4",), begins("matmul_m4n4k4")),
    Feature("graph again", ("--op=add:;dims=4x8",), once),
    Feature("suite", ("two.toml",), lambda t: begins("mul_4x8")(t) or named("two")(t)),
    Feature("case", ("case.py",)),
    Feature("type", ("--dtype=half", "--dtype=double"), retyped),
    Feature("shapes", ("--shapes=small",)),
    Feature("direction", ("--direction=fwd",)),
    Feature("batch", ("--scale-batch=2",)),
    Feature("shard", ("--shard=1/1",), lambda t: t["run"]["shard"] == "1/1"),
    Feature("chain", ("two.toml --chain",), named("two"), place="graphs"),
    Feature("seams", ("two.toml --seams",), lambda t: len(t["cases"]) > 1, place="graphs"),
    Feature("config", ("--config=c.toml",), configured),
    Feature(
        "two engines", ("-e numpy -e numpy",), lambda t: len(t["engines"]) == 2, place="engine"
    ),
    Feature("sides", ("--a numpy --b numpy",), lambda t: len(t["engines"]) == 2, place="engine"),
    Feature("kernel", ("-e kernel@k.py",), place="engine"),
    Feature("wrong kernel", ("-e kernel@wrong.py",), place="engine", wrong=True),
    Feature("threads", ("--threads=1",), setting("threads", 1)),
    Feature("math", ("--math=fast",)),
    Feature("knob", ("--knob=a=1",)),
    Feature("replay", ("--replay",)),
    Feature("oracle", ("--oracle",)),
    Feature("cache", ("--cache=cold",), setting("cache", "cold")),
    Feature("rotation", ("--cache=rotate",), setting("cache", "rotate")),
    Feature("duty", ("--duty=sustained",)),
    Feature("settle", ("--settle=20..90",)),
    Feature("timer", ("--timer=host", "--timer=auto"), setting("timer", "host")),
    Feature(
        "warmup", ("-w 3",), each_round(lambda r: len(r["warmup"]["e2e_ns"]) >= 3), place="warmup"
    ),
    Feature("iters", ("-i 6",), setting("iterations", 6), place="iters"),
    Feature("rounds", ("--rounds=2",), setting("rounds", 2), place="rounds"),
    Feature("min time", ("--min-time=0.01",), setting("min_time_s", 0.01)),
    Feature("max time", ("--max-time=none",), setting("max_time_s", None)),
    Feature("precision", ("--precision=50% --max-rounds=3",), setting("precision_ratio", 0.5)),
    Feature(
        "until",
        ("-e numpy -e numpy --until=decided --max-rounds=3",),
        setting("until", "decided"),
        place="engine",
    ),
    Feature("visits", ("--interleave=visits",), setting("interleave", "visits")),
    Feature("placements", ("--placements=3",), setting("placements", 3)),
    Feature("executions", ("--executions=2",), setting("executions", 2)),
    Feature("fresh", ("--fresh=exec",)),
    Feature("timeout", ("--timeout=60",), setting("timeout_s", 60.0)),
    Feature("seed", ("--seed=3",), setting("seed", 3)),
    Feature("init", ("--init=uniform:0:1",), initialized),
    Feature("golden", ("--golden=gold",)),
    Feature("no reference", ("--reference=none",), unchecked),
    Feature("reference", ("--reference=numpy",), setting("reference", "numpy")),
    Feature("table", ("--tolerance=hipdnn",), setting("tolerance", "hipdnn")),
    Feature("rtol", ("--rtol=0.01",), setting("rtol", 0.01)),
    Feature("check budget", ("--check-budget=0",), setting("check_budget_s", 0.0)),
    Feature("mismatches", ("--mismatches=0",)),
    Feature("adversarial", ("--adversarial",), attacked),
    Feature("strict", ("--strict",), setting("strict", True)),
    Feature("outputs", ("--save-outputs=outs",), wrote("outs")),
    Feature("new golden", ("--write-golden=new",), wrote("new")),
    Feature("cached", ("--reference-cache=off",)),
    Feature("csv", ("--csv=run.csv",), wrote("run.csv")),
    Feature("samples", ("--csv-samples=s.csv",), wrote("s.csv")),
    Feature("markdown", ("--markdown=run.md",), wrote("run.md")),
    Feature("label", ("--label=mine",), lambda t: t["run"]["label"] == "mine"),
    Feature("tag", ("--tag=a=b",), lambda t: t["run"]["tags"]["a"] == "b"),
    Feature("quiet", ("-q",)),
    Feature("verbose", ("-v",)),
    Feature("saved graphs", ("--save-graphs=made",), wrote("made")),
    Feature("saved suite", ("--save-suite=all.toml",), wrote("all.toml")),
    Feature("trace", ("--trace=t.json",), wrote("t.json")),
    Feature("observer", ("--observer=mine.py",), observed),
    Feature("packed", ("-o run.json.zst", "-o run.json.gz"), place="output"),
)
COMPARE = tuple(
    Feature(name, values, kind="compare")
    for name, *values in (
        ("by engine", "--group-by=engine"),
        ("one metric", "--metric=e2e_ns"),
        ("threshold", "--threshold=5%"),
        ("fail on", "--fail-on=only:slower", "--fail-on=none"),
        ("allowed", "--allow=add_*"),
        ("policy", "--policy=policy.toml"),
        ("agreement", "--strict"),
        ("all", "--all"),
        ("filter", "--filter=add"),
        ("sort", "--sort=ratio"),
        ("page", "--html=p.html"),
        ("junit", "--junit=j.xml"),
        ("pull request", "--markdown=p.md"),
        ("table of cases", "--csv=p.csv"),
        ("last line", "-q"),
        ("no answer", "--allow-no-answer"),
        ("sensitivity", "--require-sensitivity=50%"),
    )
)


# --- commands after a run ---


def resumed(here):
    """A run that lost its last case goes on and is whole again."""
    document = files.read(here.output)
    output = Path("part.json")
    run = replace(document.run, complete=False, finished=None)
    header = replace(document, run=run, cases=())
    with Journal.create(journal_path(output), header, document.cases[:-1]):
        pass
    done = call(bench_run, [*here.words, "-o", str(output), "--resume"])
    yield from answered(done, here)
    if output.exists():
        yield from alike(json.loads(output.read_text()), here.tree, "resumed")


def finished(here):
    before = Path(here.output).read_bytes()
    done = call(bench_run, [*here.words, "-o", here.output, "--resume"])
    yield from answered(done, here)
    if Path(here.output).read_bytes() != before:
        yield "a finished run was changed by --resume"


def repeated(here):
    done = call(bench_run, ["--rerun-from", here.output, "-o", "again.json"])
    yield from answered(done, here)
    if Path("again.json").exists():
        yield from alike(json.loads(Path("again.json").read_text()), here.tree, "repeated")


def merged(here):
    if "--shard=1/1" in here.words:
        return
    parts = []
    for share in ("1/2", "2/2"):
        parts.append(f"part{share[0]}.json")
        done = call(bench_run, [*here.words, "-o", parts[-1], "--shard", share])
        yield from answered(done, here)
    if all(Path(part).exists() for part in parts):
        done = call(bench_run, ["merge", *parts, "-o", "whole.json"])
        yield from answered(done, here)
        if done.code and not here.wrong:
            yield f"shards do not merge: {done.err}"
        else:
            yield from alike(json.loads(Path("whole.json").read_text()), here.tree, "merged")


def past(here):
    Path("past").mkdir()
    for number in range(3):
        copy_of(here.tree, f"past/{number}.json", day=number + 1)
    done = call(bench_compare, ["history", "past", "--allow-no-answer", "--json", "h.json"])
    yield from answered(done, here)
    if done.code and not here.wrong:
        yield f"three times the same document: history ends with {done.code}: {done.out}"


def site(here):
    Path("archive").mkdir()
    for number in range(2):
        copy_of(here.tree, f"archive/{number}.json", day=number + 1)
    done = call(bench_compare, ["pages", "archive", "-o", "site"])
    yield from answered(done, here)
    if done.code == 0 and not Path("site/index.html").exists():
        yield "no site was written"


def exported(here):
    for kind in ("bmf", "hud", "openmetrics", "ledger", "github-action-benchmark"):
        done = call(bench_compare, ["export", here.output, "--to", f"{kind}:{kind}.out"])
        yield from answered(done, here)


def composed(here):
    done = call(bench_compare, ["compose", "two.toml", here.output, "--json", "composed.json"])
    yield from answered(done, here)


def alone(here):
    done = call(bench_compare, [here.output])
    yield from answered(done, here)
    if done.code == 2 and not here.wrong:
        yield f"a document of right outputs is bad news: {done.out}"


def tuned(here):
    words = [word for word in here.words if not word.startswith(("-o", "--csv", "--markdown"))]
    done = call(bench_run, ["tune", *words, "--space", "plan=all", "-o", "record.json"])
    yield from answered(done, here)
    if done.code == 0:
        done = call(bench_run, ["--op", ADD, *QUICK, "--tuned", "record.json", "-o", "by.json"])
        yield from answered(done, here)


def judged(here):
    done = call(bench_run, ["judge", "k.py", "--op", ADD, "--base", "numpy", "--max-rounds", "3"])
    if not done.out.startswith("SLOWER"):
        yield from answered(done, here)
    if "WRONG" in done.out or "DISHONEST" in done.out:
        yield f"an honest kernel was judged {done.out}"


QUICK = ("-e", "numpy", "--rounds", "1", "-i", "3", "-w", "0")
AFTER = tuple(
    Feature(function.__name__, ("",), function, kind="after")
    for function in (
        *(resumed, finished, repeated, merged, past, site, exported, composed, alone, tuned),
    )
)
AFTER += (Feature("judged", ("",), judged, kind="after", only=("kernel", "wrong kernel", "case")),)
FEATURES = {feature.name: feature for feature in (*RUN, *COMPARE, *AFTER)}

REFUSED: dict[tuple[str, ...], str] = {
    ("knob",): "no engine of this run has knobs",
    ("replay",): "numpy runs on the CPU, which has no graphs to replay",
    ("oracle",): "engine numpy has no search to compare its default with",
    ("no reference", "new golden"): "not written for .*: no reference was requested",
    ("no reference", "reference"): "--reference is given twice",
    ("cache", "rotation"): "--cache is given twice",
    ("case", "new golden"): "has its reference in its file",
    ("case", "golden"): "has its reference in its file",
    ("precision", "until"): "--max-rounds is given twice",
    ("type", "golden"): "there are no golden tensors of add_4x8_(half|double)",
    **{
        (graphs, way): text
        for way in ("chain", "seams")
        for graphs, text in {
            "second graph": "take pipelines only, not --op",
            "graph again": "take pipelines only, not --op",
            "case": "case.py is not a pipeline",
            "batch": "--scale-batch do not go together",
            "golden": "--golden do not go together",
            "new golden": "--write-golden do not go together",
            "saved graphs": "--save-graphs do not go together",
            "saved suite": "--save-suite do not go together",
        }.items()
    },
}
"""Sets of features that are refused, and what the sentence says."""


# --- a combination ---


def call(main, words):
    """The finished command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            code = -1
            traceback.print_exc()
    return SimpleNamespace(words=words, code=code, out=out.getvalue(), err=err.getvalue())


def answered(done, here):
    """One line and no traceback; words and exit code agree."""
    what = f"{' '.join(map(str, done.words))}: exit {done.code}"
    text = done.out + done.err
    if "Traceback" in text or "bug in bench" in text:
        yield f"{what}: {text[-1500:]}"
    elif done.code not in (0, 1, 2):
        yield f"{what}: no such exit code: {text[-300:]}"
    elif done.code and not text.strip():
        yield f"{what}: nothing is said"
    elif done.code == 2 and not here.wrong and not busy(text) and not doubted(here):
        yield f"{what}: bad news of right outputs: {text[-600:]}"


def busy(text):
    """A machine that others use may make a case implausible, and a time longer."""
    return "implausible" in text or "slower" in text or "NOT FASTER" in text


def doubted(here):
    """A case of the run is implausible, which a quiet comparison counts as wrong."""
    return any(case["implausible"] for case in getattr(here, "tree", {}).get("cases", ()))


def copy_of(tree, path, day):
    made = json.loads(json.dumps(tree))
    run = made["run"]
    run["id"], run["started"] = f"run {day}", f"2026-01-{day:02}T00:00:00+00:00"
    Path(path).write_text(json.dumps(made))


def alike(tree, ordinary, how):
    """Cases and values are those of the ordinary run."""
    before, after = (
        {case["id"]: values_of(case) for case in each["cases"]} for each in (ordinary, tree)
    )
    if before.keys() != after.keys():
        yield f"{how}: cases {sorted(after)} for {sorted(before)}"
    for name in before.keys() & after.keys():
        if before[name] and after[name] and before[name] != after[name]:
            yield f"{how}: {name} has other values: {after[name]} for {before[name]}"


def values_of(case):
    """Checksums of outputs, and what was expected of them."""
    return {r["checksum"] for r in case["rounds"]}


def sound(tree, where="document"):
    """Nothing is negative, NaN or empty that must not be."""
    for case in tree["cases"]:
        for series, row in case["summary"].items():
            for name, value in row.items():
                if isinstance(value, (int, float)) and not (math.isfinite(value) and value >= 0):
                    yield f"{where}: {case['id']}: {series}.{name} is {value}"
        if case["outcome"]["status"] == "completed" and not case["rounds"]:
            yield f"{where}: {case['id']} completed without a round"
        for one in case["rounds"]:
            for name, values in one["series"].items():
                if any(value < 0 for value in values):
                    yield f"{where}: {case['id']}: {name} has negative samples"


VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def words_of(features, draw):
    """Words for the run, and for the comparison."""
    base, extra, compare = dict(BASE), [], []
    for feature in features:
        words = [w.replace(";", " ") for w in draw.choice(feature.values).split()]
        if feature.kind == "compare":
            compare += words
        elif feature.place is not None:
            base[feature.place] = tuple(words)
        elif feature.kind == "run":
            extra += words
    return [word for words in base.values() for word in words] + extra, compare


def problems(names, seed, folder):
    """What does not hold of a combination that is run in this folder."""
    features = [FEATURES[name] for name in names]
    with inside(folder):
        for name, text in FILES.items():
            Path(name).write_text(text)
        if any(feature.name == "golden" for feature in features):
            call(bench_run, ["--op", ADD, *QUICK, "--write-golden", "gold", "-q"])
        words, compare_words = words_of(features, random.Random(seed))
        found = [*_found(features, words, compare_words)]
    shown = " ".join(f"'{w}'" if " " in w else w for w in words)
    return [f"[{' + '.join(names)}] bench-run {shown}: {text}" for text in found]


def _found(features, words, compare_words):
    here = SimpleNamespace(words=words[:], wrong=any(feature.wrong for feature in features))
    here.output = next(words[i + 1] for i, word in enumerate(words) if word == "-o")
    refusals = [t for names, t in REFUSED.items() if set(names) <= {f.name for f in features}]
    done = call(bench_run, words)
    yield from answered(done, here)
    if refusals:
        if done.code != 1 or not any(re.search(text, done.err) for text in refusals):
            yield f"expected to be refused with {refusals}: exit {done.code}: {done.err[-400:]}"
        return
    if not Path(here.output).exists():
        yield f"no document: exit {done.code}: {done.err[-600:]}"
        return
    here.tree = json.loads(files.read_bytes(here.output))
    yield from (
        f"schema: {error.json_path}: {error.message[:200]}"
        for error in VALIDATOR.iter_errors(here.tree)
    )
    yield from sound(here.tree)
    yield from code_of(done, here)
    for feature in features:
        if feature.kind == "run" and feature.holds is not None and not feature.holds(here.tree):
            yield f"{feature.name} has had no effect: {done.err[-300:]}"
    place = here.words.index("-o")
    del here.words[place : place + 2]
    yield from with_itself(here, compare_words)
    for feature in features:
        if feature.kind == "after":
            yield from feature.holds(here)


def code_of(done, here):
    """The exit code is that of the document."""
    checks = [c["validation"]["status"] for c in here.tree["cases"] if c["validation"]]
    bad = "failed" in checks or any(case["implausible"] for case in here.tree["cases"])
    if bad != (done.code == 2):
        yield f"exit {done.code} with validations {checks}"
    if "failed" in checks and not here.wrong:
        yield f"right outputs are wrong: {done.out[-500:]}"
    if here.wrong and "failed" not in checks and "passed" in checks:
        yield "wrong outputs passed"
    ended = {case["outcome"]["status"] for case in here.tree["cases"]}
    if done.code == 0 and not ended <= {"completed", "unsupported"}:
        yield f"exit 0 with cases {ended}"


def with_itself(here, compare_words):
    """A document beside a copy of itself is never slower, wrong or removed."""
    copy_of(here.tree, "copy.json", day=1)
    documents = (
        ["copy.json"] if "--group-by=engine" in compare_words else ["copy.json", here.output]
    )
    if "--group-by=engine" in compare_words:
        documents.append(here.output)
    done = call(bench_compare, [*documents, *compare_words, "--json", "r.json"])
    yield from answered(done, here)
    if not Path("r.json").exists():
        if done.code != 1:
            yield f"no report: exit {done.code}: {done.err}"
        return
    report = json.loads(Path("r.json").read_text())
    counts = report.get("counts") or {}
    apart = "--group-by=engine" in compare_words
    bad = ("removed", "lost", "broken", "newly wrong", *(() if apart else ("slower", "worse")))
    for word in bad:
        if counts.get(word) and not here.wrong:
            yield f"a copy of itself is {word}: {done.out[-400:]}"
    if report["exit_code"] != done.code:
        yield f"the report says {report['exit_code']}, the command ends with {done.code}"


@contextlib.contextmanager
def inside(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# --- which combinations ---


def is_refused(names):
    return any(set(refused) <= set(names) for refused in REFUSED)


def fits(names):
    """True if no two want the same place, and none is refused."""
    places = [place for name in names if (place := FEATURES[name].place) is not None]
    for name in names:
        only = FEATURES[name].only
        if only is not None and not {*names} <= {name, *only}:
            return False
    return len(places) == len(set(places)) and not is_refused(names)


def pairs():
    return [pair for pair in itertools.combinations(FEATURES, 2) if fits(pair)]


def drawn(seed, number):
    """Combination `number`: two to four features."""
    return chosen(random.Random(f"features {seed} {number}"))


def chosen(draw):
    while True:
        names = tuple(draw.sample(list(FEATURES), draw.randint(2, 4)))
        if fits(names):
            return names


def covering(size, seed=0):
    """Combinations of at most `size` features that have every pair at least once."""
    draw = random.Random(f"covering {seed}")
    left = dict.fromkeys(pairs())
    while left:
        names = list(next(iter(left)))
        others = list(FEATURES)
        draw.shuffle(others)
        while len(names) < size:
            best = max(
                (name for name in others if name not in names and fits((*names, name))),
                key=lambda name: sum(ordered(name, one) in left for one in names),
                default=None,
            )
            if best is None or not any(ordered(best, one) in left for one in names):
                break
            names.append(best)
        for pair in itertools.combinations(names, 2):
            left.pop(ordered(*pair), None)
        yield tuple(names)


PLACES = {name: place for place, name in enumerate(FEATURES)}


def ordered(one, two):
    return (one, two) if PLACES[one] < PLACES[two] else (two, one)
