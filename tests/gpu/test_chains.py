"""An encoder block as a chain, predicted from its layers: launched and replayed, hot and weights
cold. `tests/benchmarks/chain_truth.py` does the same with ResNet-50."""

from __future__ import annotations

import json
import statistics

import pytest

from bench_compare.cli import main as compare
from bench_run.cli import main
from tests.benchmarks.chain_pipelines import encoder, write
from tests.benchmarks.chain_truth import APART, WITH_CHAIN

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]  # eight runs, of half a minute each

WAYS = {"launched": (), "replayed": ("--replay",)}
CLOSE = 0.02
"""The median error that predictions are to stay below."""


@pytest.fixture(scope="module", params=["cudnn", "torch:cuda"])
def checks(request, tmp_path_factory):
    """Of each way and cache state, a prediction beside its chain."""
    folder = tmp_path_factory.mktemp("chains")
    path = str(write(encoder(), folder))
    return {
        (way, cache): check(folder, path, request.param, way, cache)
        for way in WAYS
        for cache in ("hot", "weights-cold")
    }


def check(folder, path, engine, way, cache):
    def run(name, *words):
        out = str(folder / f"{name}_{way}_{cache}.json")
        calm = (
            "--rounds",
            "3",
            "--iters",
            "60",
            "--reference",
            "none",
            "--quiet",
            "--force",
            "-o",
            out,
        )
        assert main([path, "-e", engine, *WAYS[way], *words, *calm]) == 0
        return out

    chain = run("chain", "--chain", "--seams", "--cache", WITH_CHAIN[cache])
    parts = run("parts", "--seams", "--cache", APART[cache])
    found = folder / "composed.json"
    compare(["compose", path, chain, parts, "--against", chain, "--json", str(found), "--quiet"])
    (made,) = json.loads(found.read_text())["checks"]
    return made


def test_predictions_are_within_two_percent_in_the_median(checks):
    assert statistics.median(abs(one["log_error"]) for one in checks.values()) <= CLOSE


def test_every_interval_holds(checks):
    assert dict.fromkeys(checks, True) == {key: one["holds"] for key, one in checks.items()}


def test_what_is_replayed_takes_no_longer_than_what_is_launched(checks):
    times = {key: one["measured"]["value"] for key, one in checks.items()}
    assert all(
        times["replayed", cache] < 1.02 * times["launched", cache]
        for cache in ("hot", "weights-cold")
    )
