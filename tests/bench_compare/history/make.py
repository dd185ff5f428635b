"""Archives of documents with known steps, as files."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np
from bench_schema import files
from bench_schema.document import Revision, Surroundings

from tests.bench_compare.build import case, document, engine, machine, round_

BEGIN = datetime(2026, 1, 1, 3, tzinfo=timezone.utc)
OWN = ("host", "environment", "libraries", "commit", "plan", "settings", "others", "devices")


def started(number):
    return (BEGIN + timedelta(days=number)).isoformat()


def one(number, levels, *, random, rounds=3, count=5, spread=0.002, **changes):
    """A document of cases at these levels: nanoseconds, or a status other than completed.
    `changes`: host, environment, libraries, commit, plans, devices, the share of the processors
    that others' processes have, and those of the run."""
    own = {name: changes.pop(name, None) for name in OWN}
    cases = []
    for place, level in enumerate(levels):
        name = f"graph_{place:03d}"
        if isinstance(level, str):
            cases.append(case(name, status=level, reason="not today"))
        elif level is not None:
            centre = level * np.exp(random.normal(0, spread, (rounds, 1)))
            times = centre * np.exp(random.normal(0, 0.003, (rounds, count)))
            made = _rounds(np.rint(times).astype(np.int64), own["others"], random)
            cases.append(case(name, made, plan=own["plan"] or {}, path=f"graphs/{name}.json"))
    where = replace(
        machine(own["host"] or "host"),
        environment=own["environment"] or {},
        devices=own["devices"] or (),
        graphs_revision=None if own["commit"] is None else Revision(own["commit"], False),
    )
    words = {
        "run_id": f"run-{number}",
        "started": started(number),
        "command": ("bench-run", "graphs", "--engine", "numpy", "-o", "x.json"),
        "machine": where,
        "engines": [engine("numpy", libraries=own["libraries"] or {})],
        "settings": own["settings"] or {},
        **changes,
    }
    return document(cases, words.pop("label", None), **words)


def _rounds(times, others, random):
    made = [round_(number, {"e2e_ns": row}) for number, row in enumerate(times)]
    if others is None:
        return made
    beside = Surroundings(window_s=1.0, others_cpu_s=2 * random.normal(others, 0.01))
    return [replace(one, surroundings=beside) for one in made]


def write(folder, documents):
    folder.mkdir(parents=True, exist_ok=True)
    for number, made in enumerate(documents):
        files.save(folder / f"d{number:03d}.json", made)
    return folder


def archive(folder, builds=24, cases=6, steps=(), seed=1, noise=0.004, change=None, **more):
    """`steps`: (case, first build, factor); `change`: (first build, what the documents say)."""
    random = np.random.default_rng(seed)
    levels = 1e6 * np.exp(random.normal(0, noise, (builds, cases)))
    for place, first, factor in steps:
        levels[first:, place] *= factor
    made = []
    for number in range(builds):
        words = dict(change[1]) if change is not None and number >= change[0] else {}
        made.append(one(number, list(levels[number]), random=random, **{**more, **words}))
    return write(folder, made)
