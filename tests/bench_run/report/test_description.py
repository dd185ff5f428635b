"""A graph in words."""

from __future__ import annotations

import dataclasses

import pytest

from bench_run.graph.make import OPS, make_graphs
from bench_run.report.description import WIDTH, describe, flop_text


def words_of(spec: str) -> str:
    return describe(make_graphs(spec, "small")[0])


@pytest.mark.parametrize("name", [name for name in OPS if not OPS[name].only_after])
@pytest.mark.parametrize("shapes", ["small", "large"])
def test_no_line_is_wider_than_the_terminal(name: str, shapes: str) -> None:
    lines = [line for graph in make_graphs(name, shapes) for line in describe(graph).splitlines()]
    assert max(map(len, lines)) <= WIDTH


def test_operations_stand_in_order_with_what_they_read_and_write() -> None:
    text = words_of("conv_fwd+bias+relu: n=1 c=2 h=4 w=4 k=2")
    heads = [line.strip() for line in text.splitlines() if "->" in line]
    assert heads == [
        "1. conv_fwd: x, w -> conv_fwd_y",
        "2. add: conv_fwd_y, bias -> bias_y",
        "3. relu_fwd: bias_y -> y",
    ]


def test_work_is_flops_bytes_and_their_ratio() -> None:
    assert "4.10 kFLOP, 2.250 KiB moved, 1.78 FLOP/byte" in words_of("matmul: m=8 n=8 k=32")


@pytest.mark.parametrize(
    ("spec", "layout"),
    [
        ("conv_fwd: n=2 c=3 h=4 w=5 k=6 layout=nhwc", "krsc"),
        ("conv_fwd: n=2 c=3 h=4 w=5 k=6", "kcrs"),
        ("batchnorm_inference: n=2 c=3 d=2 h=4 w=5 layout=ndhwc", "ndhwc"),
        ("relu: n=2 c=3 h=4 w=5 layout=nhwc", "nhwc"),
        ("matmul: m=2 n=3 k=4 layout=tn", "col"),
        ("sdpa: b=2 h=2 s=3 d=4 layout=bshd", "bshd"),
        ("layernorm: n=2 s=3 h=4", "packed"),
        ("relu: dims=2x3", "packed"),
    ],
)
def test_layouts_are_named_after_their_strides(spec: str, layout: str) -> None:
    assert f" {layout} " in words_of(spec)


def test_strides_of_no_known_layout_are_shown() -> None:
    (graph,) = make_graphs("relu: n=2 c=3 h=4 w=5")
    padded = (dataclasses.replace(graph.tensors[0], strides=(1000, 100, 10, 1)), graph.tensors[1])
    assert "strides 1000×100×10×1" in describe(dataclasses.replace(graph, tensors=padded))


def test_unknown_work_says_so() -> None:
    assert "FLOP unknown" in words_of("sdpa: b=1 h=1 s=4 d=4 lengths=1")


def test_a_constant_shows_its_value() -> None:
    assert "= 1e-05" in words_of("layernorm: n=2 s=3 h=4")


def test_parameters_at_their_usual_value_are_left_out() -> None:
    text = words_of("conv_fwd: n=1 c=2 h=9 w=9 k=2 stride=2")
    assert ("stride 2×2" in text, "dilation" in text) == (True, False)


def test_names_from_a_file_cannot_move_the_cursor() -> None:
    (graph,) = make_graphs("relu: n=1 c=1 h=2 w=2")
    assert "\x1b" not in describe(dataclasses.replace(graph, name="a\x1b[2Jb"))


@pytest.mark.parametrize(
    ("flops", "text"),
    [(None, "FLOP unknown"), (0, "0 FLOP"), (999, "999 FLOP"), (2_500_000, "2.50 MFLOP")],
)
def test_flops_are_shown_in_the_unit_that_fits(flops: int | None, text: str) -> None:
    assert flop_text(flops) == text
