"""Kills runs at random moments, resumes them, and looks for rounds that were lost or mixed.

Usage:
  kill_resume.py [--kills=N] [--seed=N] [--prepare=N]

Options:
  --kills=N    [default: 1000]
  --seed=N     [default: 0]
  --prepare=N  rounds prepared side by side, on the double of hipDNN [default: 0]

So many times a run, or the resumption of one, is killed with SIGKILL after a random time:
while it starts, measures, saves or seals. After three kills on average it may end. Then every
round that any journal had shown must be in the document, once, as it was measured; every case must
have all its rounds; and no file but the document may be left. Sometimes two runs are started at
once for one output: one of them is refused, or comes later. Prints one line of
figures; exit code 1 if anything was lost.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_schema.errors import DocumentError
from bench_schema.files import read
from bench_schema.journal import journal_path, read_journal

from tests.benchmarks.harness import script

ROOT = Path(__file__).resolve().parents[2]
DOUBLES = ROOT / "tests" / "doubles"
GRAPHS, ROUNDS, ITERATIONS = 3, 3, 6
ENDING = 0.25
"""Chance that a run is let end."""
LONGEST_S = 6.0
TWINS = 0.2
"""Chance that two runs are started at once for the same output."""


def graph(index):
    """A sum of two tensors, each with a shape of its own."""
    dims = [4, 8 + index]
    names = ("a", "b", "c")
    tensors = [
        {"uid": uid, "name": name, "dims": dims, "strides": [dims[1], 1], "data_type": "float"}
        for uid, name in enumerate(names)
    ]
    node = {
        "name": "node",
        "type": "PointwiseAttributes",
        "compute_data_type": "float",
        "inputs": {"operation": "add", "in_0_tensor_uid": 0, "in_1_tensor_uid": 1},
        "outputs": {"out_0_tensor_uid": 2},
    }
    types = dict.fromkeys(("io_data_type", "intermediate_data_type", "compute_data_type"), "float")
    tensors = [{**tensor, "virtual": False} for tensor in tensors]
    return {"name": f"add_{index}", **types, "tensors": tensors, "nodes": [node]}


def start(folder, prepare):
    command = [sys.executable, "-m", "bench_run", "graphs", "-o", "run.json", "--resume", "-q"]
    beside = ["-e", "hipdnn", "--prepare", str(prepare)]
    command += [*(beside if prepare else ["-e", "numpy"]), "--warmup", "0"]
    command += ["--rounds", str(ROUNDS), "--iters", str(ITERATIONS)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "schema"), *([str(DOUBLES)] if prepare else [])])
    tmp = str(folder / "tmp")
    env = {**os.environ, "PYTHONPATH": paths, "TMPDIR": tmp, "BENCH_RUN_LOCKS": tmp + "/locks"}
    return subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)


def rounds_of(document):
    return {
        (case.id.partition(" on ")[0], each.index): (each.started, *each.series["e2e_ns"].tolist())
        for case in document.cases
        for each in case.rounds
    }


def saved(folder):
    """What a journal or document of the folder holds; nothing where there is none yet."""
    output = folder / "run.json"
    path = journal_path(output)
    if path.exists():
        return rounds_of(read_journal(path))
    return rounds_of(read(output)) if output.exists() else {}


def problems(folder, seen, prepare):
    """What is wrong with the document of a run that ended."""
    document = read(folder / "run.json")
    found = rounds_of(document)
    wanted = {(f"add_{g}", r) for g in range(GRAPHS) for r in range(ROUNDS)}
    count = sum(len(case.rounds) for case in document.cases)
    left = {path.name for path in folder.iterdir()} - {"graphs", "tmp", "run.json"}
    checks = {
        "rounds changed or lost": {
            key: value for key, value in seen.items() if found.get(key) != value
        },
        "rounds missing": wanted - found.keys(),
        "rounds twice": count - len(found),
        "files left": left,
        "not complete": not document.run.complete,
        "notes": document.run.notes,
        "prepared": {document.run.settings.round_preparation}
        - {"side by side" if prepare else "alone"},
    }
    return {name: what for name, what in checks.items() if what}


def outcomes(folder):
    """What became of the cases of a document."""
    return [(case.id, case.outcome, case.notes) for case in read(folder / "run.json").cases]


def stop_or_let_end(processes, chance):
    """Whether a run was killed."""
    if chance.random() < ENDING:
        for process in processes:
            process.wait()
        return False
    time.sleep(chance.uniform(0, LONGEST_S))
    alive = [process for process in processes if process.poll() is None]
    for process in alive:
        process.kill()
    return bool(alive)


def one_run(folder, chance, prepare):
    """Kills until the run may end. Gives the number of kills, of runs that were refused because
    another one was at work, and what went wrong."""
    seen, kills, refused = {}, 0, 0
    while True:
        processes = [start(folder, prepare) for _ in range(2 if chance.random() < TWINS else 1)]
        kills += stop_or_let_end(processes, chance)
        words = [process.communicate()[1] for process in processes]
        codes = [process.returncode for process in processes]
        for code, text in zip(codes, words, strict=True):
            if code == 1 and "another run writes to it" in text:
                refused += 1
            elif code not in (0, -9):
                return kills, refused, {f"exit code {code}": text or outcomes(folder)}
        try:
            now = saved(folder)
        except DocumentError as error:
            return kills, refused, {"unreadable": str(error)}
        lost = {key: value for key, value in seen.items() if now.get(key) != value}
        if lost:
            return kills, refused, {"rounds changed or lost after a kill": lost}
        seen |= now
        if 0 in codes:
            return kills, refused, problems(folder, seen, prepare)


def main(kills: int, seed: int, prepare: int) -> int:
    chance = random.Random(seed)
    killed = runs = refused = 0
    wrong = []
    began = time.perf_counter()
    while killed < kills:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "graphs").mkdir()
            (folder / "tmp").mkdir()
            for index in range(GRAPHS):
                (folder / "graphs" / f"add_{index}.json").write_text(json.dumps(graph(index)))
            more, alone, what = one_run(folder, chance, prepare)
        killed, refused, runs = killed + more, refused + alone, runs + 1
        if what:
            wrong.append(what)
            print(f"run {runs}: {what}", file=sys.stderr)
    seconds = time.perf_counter() - began
    print(
        f"{killed} kills in {runs} runs, {refused} of two at once refused, {seconds:.0f} s: "
        f"{len(wrong)} runs lost or mixed anything"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    script(main)
