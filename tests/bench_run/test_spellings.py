"""The command line of dnn-benchmarking: each spelling works, or is answered with what to type."""

from __future__ import annotations

import pytest

from bench_run.cli import main
from tests.conftest import ROOT

GRAPH = str(ROOT / "graphs" / "sample_relu.json")
OTHER = str(ROOT / "graphs" / "sample_add.json")

ANSWERS = {
    "--validate pytorch": "--reference torch",
    "-b pytorch": "-e torch",
    "--backend pytorch": "-e torch",
    "--cache-mode warm": "--cache hot",
    "--cache-mode cold": "--cache cold",
    "--min-time-ms 100": "--min-time 0.1",
    "--timing-block 50": "--executions",
    "--oracle-mode plan": "--oracle",
    "--oracle-mode exhaustive": "bench-run tune --exhaustive",
    "--autotune": "hipdnn:autotune",
    "--pytorch-sdpa-backend flash": "--engine cudnn or hipdnn",
    "--pytorch-rocm-fa-library aotriton": "--engine hipdnn",
    "--metrics-tier basic": "--counters",
    "--pmc SQ_WAVES": "--counters",
    "--emit-trace t": "--trace FILE",
    "--perf": "--trace FILE",
    "--roofline": "GFLOP/s",
    "-o out.csv": "--csv out.csv",
}


@pytest.mark.parametrize("words", ANSWERS)
def test_a_spelling_is_answered_with_what_to_type(words, capsys):
    assert main(["-g", GRAPH, *words.split()]) == 1
    said = capsys.readouterr().err
    assert ANSWERS[words] in said
    assert said.count("\n") == 1


def shown(capsys, *words):
    main(["-g", GRAPH, *words, "--dry-run"])
    said = capsys.readouterr()
    return [line.split(" on ")[1].split()[0] for line in said.out.splitlines() if " on " in line]


def test_several_graphs_stand_behind_one_flag(capsys):
    assert len(shown(capsys, OTHER, "-e", "numpy")) == 2


def test_a_graph_named_twice_runs_once(capsys):
    assert len(shown(capsys, GRAPH, "-e", "numpy")) == 1


@pytest.mark.parametrize(("words", "engines"), [
    ("numpy,kernel@x.py", None),
    ("numpy,numpy+threads=2", ["numpy", "numpy+threads=2"]),
    ("MIOPEN_ENGINE,numpy", ["hipdnn:MIOPEN_ENGINE", "numpy"]),
    ("0xA258541A6DAA1DE3", ["hipdnn:0xA258541A6DAA1DE3"]),
    ("-6748", ["hipdnn:-6748"]),
])  # fmt: skip
def test_engines_are_named_as_there(words, engines, capsys):
    found = shown(capsys, "-e", words)
    if engines is not None:
        assert found == engines


def test_each_engine_has_its_path_of_plugins(tmp_path, capsys):
    paths = [tmp_path / "a", tmp_path / "b"]
    code = main(["-g", GRAPH, "-e", "A_X,B_X", "--plugin-path", ",".join(map(str, paths))])
    assert code == 1
    assert f"hipdnn:A_X@{paths[0]}" in capsys.readouterr().err


def test_the_guide_holds_every_spelling():
    page = (ROOT / "bench_run/docs/dnn-benchmarking.md").read_text()
    for flag in ("-g", "-e", "--plugin-path", "-b pytorch", "--min-time-ms", "--cache-mode",
                 "--timing-block", "--validate", "--rtol", "--oracle-mode", "--autotune",
                 "--cache-dir", "--pmc", "--pytorch-sdpa-backend"):  # fmt: skip
        assert flag in page
