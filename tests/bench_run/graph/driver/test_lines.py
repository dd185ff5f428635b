"""Every line of tests/data/driver/lines.txt gives the outcome that stands beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_run.errors import GraphError
from bench_run.graph.driver import convert_line

DATA = Path(__file__).parents[3] / "data" / "driver" / "lines.txt"


def _rows() -> list[tuple[str, str]]:
    lines = DATA.read_text(encoding="utf-8").splitlines()
    rows = (line.split(" => ") for line in lines if line and not line.startswith("# "))
    return [(line, expected) for line, expected in rows if expected]


@pytest.mark.parametrize(("line", "expected"), _rows(), ids=[line for line, _ in _rows()])
def test_a_line_gives_the_outcome_beside_it(line: str, expected: str) -> None:
    kind, _, words = expected.partition(": ")
    if kind == "error":
        with pytest.raises(GraphError) as caught:
            convert_line(line, "lines")
        assert words in str(caught.value)
        return
    made = convert_line(line, "lines")
    if kind == "none":
        assert made.reason is not None
        assert (words in made.reason, ()) == (True, made.graphs)
    else:
        assert expected.split() == [graph.name for graph in made.graphs]


def test_the_lines_cover_forty_commands_and_every_converter() -> None:
    bases = {word for line, _ in _rows() for word in line.split() if word[:1].isalpha()}
    wanted = {
        "conv",
        "bnorm",
        "pool",
        "activ",
        "CBAInfer",
        "gemm",
        "softmax",
        "layernorm",
        "reduce",
        "tensorop",
    }
    assert (set(), True) == (wanted - bases, len(_rows()) >= 40)
