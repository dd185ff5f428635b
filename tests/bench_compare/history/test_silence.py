"""What an archive must not be silent about: times and checks that went, results that are wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from bench_schema.document import Part

from bench_compare.cli import main
from tests.bench_compare.build import case, document, round_, validation
from tests.bench_compare.history import make

BUILDS, FIRST = 8, 6
"""How many there are, and which is the first that is another."""
OLD = {"device": 1.0, "end": 1.0, "series": ("device_ns", "e2e_ns"), "validation": validation()}


def held(random, name, **words):
    """`words`: factors of device and end-to-end time, names of the series, and what cases have."""
    words = {**OLD, **words}
    factors = {"device_ns": words.pop("device"), "e2e_ns": 3 * words.pop("end")}
    names = words.pop("series")
    times = {n: 1e6 * factors[n] * np.exp(random.normal(0, 0.004, (3, 9))) for n in names}
    rounds = [
        round_(number, {n: np.rint(times[n][number]).astype(np.int64) for n in names})
        for number in range(3)
    ]
    return case(name, rounds, **words)


def judged(tmp_path, capsys, old, new):
    """(exit code, record) of an archive with a case that changes and one that does not."""
    random = np.random.default_rng(3)
    make.write(
        tmp_path,
        [
            document(
                [held(random, "g", **(old if n < FIRST else new)), held(random, "still")],
                run_id=f"r{n}",
                started=make.started(n),
            )
            for n in range(BUILDS)
        ],
    )
    code = main(["history", str(tmp_path), "--json", "-"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("new", "kind", "text"),
    [
        ({"implausible": "too fast"}, "wrong", "implausible: too fast"),
        ({"validation": replace(validation(), iterations_mismatched=2)}, "wrong", "outside of"),
        ({"validation": replace(validation(), inputs_unchanged=False)}, "wrong", "inputs are"),
        ({"validation": None}, "lost", "outputs are no longer checked"),
        ({"series": ("e2e_ns",)}, "lost", "device time is no longer measured"),
        ({"series": ()}, "lost", "device time is no longer measured"),
    ],
)
def test_what_went_fails_the_command(tmp_path, capsys, new, kind, text):
    code, found = judged(tmp_path, capsys, {}, new)
    (event,) = found["events"]
    assert (2, kind, FIRST) == (code, event["kind"], event["build"])
    assert text in event["sentence"]
    assert found["counts"].keys() <= {"same", kind}


def test_a_case_without_device_time_is_judged_by_its_end_to_end_time(tmp_path, capsys):
    only = {"series": ("e2e_ns",)}
    code, found = judged(tmp_path, capsys, only, {**only, "end": 2.0})
    assert (2, "slower") == (code, found["events"][0]["direction"])
    assert {"g": "e2e_ns", "still": "device_ns"} == {
        s["name"]: s["metric"] for s in found["series"]
    }


def test_a_suite_that_is_checked_now_and_then_loses_nothing(tmp_path, capsys):
    random = np.random.default_rng(3)
    checks = [validation(), None, None, validation(), None, None]
    cases = [held(random, "g", validation=one) for one in checks]
    make.write(
        tmp_path,
        [document([c], run_id=f"r{n}", started=make.started(n)) for n, c in enumerate(cases)],
    )
    assert main(["history", str(tmp_path), "-q"]) == 0


@pytest.mark.parametrize(("statuses", "code"), [("fc", 0), ("ffc", 2), ("cff", 2), ("fcc", 0)])
def test_most_documents_of_the_newest_build_tell_what_became_of_a_case(
    tmp_path, capsys, statuses, code
):
    random = np.random.default_rng(3)
    kinds = [("a", "c"), ("b", "c"), ("c", "c"), *(("d", sign) for sign in statuses)]
    make.write(
        tmp_path,
        [
            make.one(n, [1e6, 1e6 if sign == "c" else "failed"], random=random, label=label)
            for n, (label, sign) in enumerate(kinds)
        ],
    )
    assert main(["history", str(tmp_path), "--by", "label", "-q"]) == code


def test_a_run_counts_once_beside_what_it_was_merged_into(tmp_path, capsys):
    random = np.random.default_rng(3)
    made = [make.one(n, [1e6], random=random) for n in range(5)]
    parts = tuple(Part(one.run, one.machine) for one in made[:2])
    whole = replace(made[0], run=replace(made[0].run, id="whole"), parts=parts)
    make.write(tmp_path, [*made, whole])
    main(["history", str(tmp_path), "--json", "-"])
    out, err = capsys.readouterr()
    assert len(json.loads(out)["builds"]) == 4
    assert "d001.json: merged into" in err


@pytest.mark.parametrize(
    ("builds", "code"), [(["run-14"], 2), (["run-14", "run-15"], 0), (["run-15"], 0)]
)
def test_an_accepted_step_does_not_cover_the_next_build(tmp_path, capsys, builds, code):
    """+5 % was accepted, +20 % came with the build after it."""
    folder = make.archive(tmp_path / "a", cases=3, steps=[(0, 14, 1.05), (0, 15, 1.2)])
    events = "".join(f'[[event]]\nbuild = "{build}"\n' for build in builds)
    (tmp_path / "e.toml").write_text(events)
    assert main(["history", str(folder), "--events", str(tmp_path / "e.toml")]) == code
    out = capsys.readouterr().out
    assert ("1 slower" in out) == (code == 2)


def test_where_no_document_is_left_the_damaged_one_is_named(tmp_path, capsys):
    (tmp_path / "a.json").write_text("{")
    assert main(["history", str(tmp_path)]) == 1
    assert "no result document is left; a.json: passed over" in capsys.readouterr().err


def test_a_newest_run_that_was_not_finished_is_named(tmp_path, capsys):
    random = np.random.default_rng(3)
    made = [make.one(n, [1e6], random=random, complete=n < 5) for n in range(6)]
    main(["history", str(make.write(tmp_path, made))])
    assert "d005.json: the run was not finished" in capsys.readouterr().err


@pytest.mark.parametrize(("complete", "kinds"), [(True, ["removed"]), (False, [])])
def test_cases_that_runs_may_still_measure_are_not_gone(tmp_path, capsys, complete, kinds):
    random = np.random.default_rng(3)
    made = [
        make.one(n, [1e6, 1e6, None if n >= 9 else 1e6], random=random, complete=complete or n < 9)
        for n in range(12)
    ]
    main(["history", str(make.write(tmp_path, made)), "--json", "-"])
    found = json.loads(capsys.readouterr().out)
    assert kinds == [event["kind"] for event in found["events"]]
