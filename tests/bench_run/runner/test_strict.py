"""``--strict``: what outputs are is found out by a process that never loaded the engine's code."""

from __future__ import annotations

from dataclasses import replace

import pytest

import bench_run

ALL = {"reference_cache": "off", "check_budget_s": 100.0}  # all iterations, on any machine
SMOKE = ("matmul: m=16 n=8 k=24 dtype=float", "batchnorm_training: n=2 c=3 h=4 w=4 dtype=float")


def validations(graphs, engines, **options):
    """By case; how many iterations ran on canaries is left out, which is drawn."""
    document = bench_run.run(graphs, engine=engines, rounds=1, iterations=4, **ALL, **options)
    return {
        case.id: (
            case.outcome.status,
            replace(case.validation, iterations_poisoned=None),
        )
        for case in document.cases
    }


def same_with_and_without(graphs, engines, **options):
    plain = validations(graphs, engines, **options)
    assert plain
    assert plain == validations(graphs, engines, strict=True, **options)
    return plain


@pytest.mark.long
def test_an_honest_engine_s_outputs_are_the_same_in_strict_runs():
    found = same_with_and_without([], ["numpy"], op=SMOKE)
    assert {"passed"} == {validation.status for _, validation in found.values()}


@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.parametrize("suite", ["suite:smoke", "suite:activations"])
def test_honest_engines_outputs_are_the_same_in_strict_runs_of_graphs(root, suite):
    graphs = [suite]
    assert same_with_and_without(graphs, ["numpy", "torch:cpu"])


@pytest.mark.long
@pytest.mark.usefixtures("hostile")
def test_wrong_engines_are_wrong_for_the_same_reasons(small_graph):
    ways = ("wrong", "scribbles", "remembers", "fine")
    found = same_with_and_without([str(small_graph)], [f"hostile:{way}" for way in ways])
    statuses = [validation.status for _, validation in found.values()]
    assert ["failed", "failed", "failed", "passed"] == statuses


@pytest.mark.long
@pytest.mark.usefixtures("hostile")
def test_a_judge_that_the_engine_replaced_in_its_own_process_does_not_judge(small_graph):
    engine = "hostile:patches-the-judge"
    bribed = validations([str(small_graph)], [engine])
    assert ["passed"] == [validation.status for _, validation in bribed.values()]
    strict = validations([str(small_graph)], [engine], strict=True)
    assert ["failed"] == [validation.status for _, validation in strict.values()]
