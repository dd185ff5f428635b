"""What documents of one build differ by: learned once, used where single documents are compared."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench_compare.comparison.calibration import calibrate, from_json, to_json
from bench_compare.comparison.compare import compare
from bench_compare.errors import InputError
from bench_compare.model import Source, Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import side
from tests.benchmarks.compare_documents import simulated

CASES = 40
EFFECTS = (0.01, 0.01)


def one_build(random, count, effects=EFFECTS):
    return [
        Source(f"{n}.json", one, "bench")
        for n, one in enumerate(simulated(random, count, effects, np.zeros(CASES)))
    ]


def test_the_effects_of_documents_are_found_again():
    (entry,) = calibrate(one_build(np.random.default_rng(1), 30)).entries.values()
    assert np.sqrt(entry.common_variance) == pytest.approx(0.01, rel=0.35)
    assert np.sqrt(entry.own_variance) == pytest.approx(0.01, rel=0.1)
    assert (entry.documents, entry.cases, entry.common_dof) == (30, CASES, 29)


def test_documents_that_do_not_differ_calibrate_to_little():
    (entry,) = calibrate(one_build(np.random.default_rng(1), 10, (0, 0))).entries.values()
    assert entry.own_variance < 0.0005**2
    assert entry.common_variance < 0.0005**2


def outcomes(calibration, repeats=30):
    """(share of intervals that hold the truth, share of false alarms) of single documents."""
    random = np.random.default_rng(7)
    held, alarms = [], []
    for _ in range(repeats):
        base, other = (simulated(random, 1, EFFECTS, np.zeros(CASES)) for _ in range(2))
        found = compare(side("a", *base), [side("b", *other)], Policy(), calibration).cases
        metrics = [one.gate_metric for one in found]
        held += [m.ci_low <= 1 <= m.ci_high for m in metrics]
        alarms += [one.verdict in (Verdict.FASTER, Verdict.SLOWER) for one in found]
    return np.mean(held), np.mean(alarms)


@pytest.mark.long
def test_single_documents_are_honest_with_a_calibration_and_not_without():
    calibration = calibrate(one_build(np.random.default_rng(2), 12))
    without, calibrated = outcomes(None), outcomes(calibration)
    assert without[0] < 0.7
    assert 0.9 <= calibrated[0] <= 0.99
    assert calibrated[1] <= 0.01


def test_a_calibrated_verdict_is_not_of_its_visit_only():
    calibration = calibrate(one_build(np.random.default_rng(2), 12))
    random = np.random.default_rng(3)
    base = side("a", *simulated(random, 1, (0, 0), np.zeros(CASES)))
    other = side("b", *simulated(random, 1, (0, 0), np.full(CASES, 0.3)))
    texts = [compare(base, [other], Policy(), c).cases[0].reason for c in (None, calibration)]
    assert ["is assumed for what documents differ by" in text for text in texts] == [True, False]


def test_another_machine_is_not_known():
    calibration = calibrate(one_build(np.random.default_rng(2), 4))
    moved = {(f"not {key[0]}", *key[1:]): entry for key, entry in calibration.entries.items()}
    random = np.random.default_rng(3)
    base = side("a", *simulated(random, 1, EFFECTS, np.zeros(CASES)))
    other = side("b", *simulated(random, 1, EFFECTS, np.zeros(CASES)))
    elsewhere = type(calibration)(moved)
    found = [compare(base, [other], Policy(), c).cases[0].gate_metric for c in (None, elsewhere)]
    assert found[0].ci_low == found[1].ci_low
    said = [
        " ".join(compare(base, [other], Policy(), c).warnings) for c in (calibration, elsewhere)
    ]
    assert ["knows nothing of 40 of 40 cases" in text for text in said] == [False, True]


def test_a_calibration_survives_its_file():
    calibration = calibrate(one_build(np.random.default_rng(1), 3))
    assert from_json(to_json(calibration), "x") == calibration


@pytest.mark.parametrize(
    "text", [b"[]", b"", b"not JSON", b'{"kind": "bench-compare calibration"}']
)
def test_what_is_no_calibration_is_one_sentence(text):
    with pytest.raises(InputError, match=r"c.json: not a calibration: .*--save-calibration writes"):
        from_json(text, "c.json")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"host": ["a"]}, r"Expected `str`, got `array` - at `\$.entries\[0\].host`"),
        ({"common_variance": 1e99}, "Expected `float` <= 100.0 .*common_variance"),
        ({"common_variance": -1}, "Expected `float` >= 0.0 .*common_variance"),
        ({"own_variance": True}, "Expected `float`, got `bool` .*own_variance"),
        ({"common_dof": 0}, "Expected `float` > 0.0 .*common_dof"),
        ({"more": 1}, "unknown field `more`"),
    ],
)
def test_a_number_that_no_machine_gives_is_refused(changes, sentence):
    tree = json.loads(to_json(calibrate(one_build(np.random.default_rng(2), 2))))
    tree["entries"][0].update(changes)
    with pytest.raises(InputError, match=sentence):
        from_json(json.dumps(tree).encode(), "c.json")


def test_two_entries_of_one_machine_are_refused():
    tree = json.loads(to_json(calibrate(one_build(np.random.default_rng(2), 2))))
    tree["entries"].append({**tree["entries"][0], "own_variance": 0.5})
    with pytest.raises(InputError, match="two entries"):
        from_json(json.dumps(tree).encode(), "c.json")


def test_one_document_calibrates_nothing():
    with pytest.raises(InputError, match="two documents of one engine"):
        calibrate(one_build(np.random.default_rng(0), 1))
