"""The node models of the package onnx: those that become graphs as a whole compute their golden
outputs, and none ends in a traceback."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from bench_run.cli import main
from tests.bench_run.models.node_models import node_models, outcome

LEAST_WHOLE = 450

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def models():
    return list(node_models())


def test_what_is_whole_computes_the_golden_outputs(models, tmp_path):
    found = {}
    for number, (name, model, inputs, outputs) in enumerate(models):
        folder = tmp_path / str(number)
        folder.mkdir()
        found[name] = outcome(model, inputs, outputs, folder)
    counts = Counter(status for status, _ in found.values())
    assert [] == [name for name, (status, _) in found.items() if status == "wrong"]
    assert counts["whole"] >= LEAST_WHOLE
    assert all(why for status, why in found.values() if status != "whole")


def test_no_import_ends_in_a_traceback(models, tmp_path, capsys):
    """An imported model exits 0; what cannot be is one line on stderr, and 1."""
    said = {}
    for name, model, *_ in models:
        onnx.save(model, tmp_path / "net.onnx")
        code = main(["import", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out")])
        error = capsys.readouterr().err
        if (code, error.count("\n")) not in ((0, 0), (1, 1)):
            said[name] = code, error
    assert {} == said
