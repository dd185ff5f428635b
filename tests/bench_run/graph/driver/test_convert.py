"""Whole texts of driver lines: duplicates, errors, remarks, canonical commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.errors import GraphError
from bench_run.graph.driver import convert_line, convert_lines, graphs_of
from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.format.hipdnn_json import read_graph

ROOT = Path(__file__).parents[4]
LOG = "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver "
SMALL = "conv -n 2 -c 4 -H 8 -W 8 -k 4 -F 1"


def test_equal_commands_are_counted_not_repeated() -> None:
    text = f"{SMALL}\n{LOG}{SMALL} -t 1\nconv --batchsize 2 -c 4 -H 8 -W 8 -k 4 -F 1 -i 99\n"
    made = convert_lines(text, "file")
    assert [command.count for command in made.commands] == [3]


def test_the_place_of_a_command_is_its_first_line() -> None:
    made = convert_lines(f"\n# shapes\n{SMALL}\n{SMALL}\n", "shapes.txt")
    assert made.commands[0].where == "shapes.txt:3"


def test_wrong_lines_are_collected_with_their_places() -> None:
    made = convert_lines(f"conv -n x\n{SMALL}\nconv --nope 1\n", "f")
    assert [error.where for error in made.errors] == ["f:1", "f:3"]


def test_chatter_of_a_log_says_nothing() -> None:
    chatter = "MIOpen(HIP): Info [get_device_name] Raw device name: gfx90a\nloading 3 files\n"
    made = convert_lines(chatter + LOG + SMALL, "log")
    assert (len(made.commands), made.errors) == (1, ())


def test_a_text_without_commands_is_an_error() -> None:
    with pytest.raises(GraphError, match="no MIOpenDriver command"):
        convert_lines("nothing here\n", "file")


def test_a_line_without_a_command_is_an_error() -> None:
    with pytest.raises(GraphError, match="no MIOpenDriver command"):
        convert_line("# only a comment", "file")


def test_a_bias_is_left_out_with_a_remark() -> None:
    made = convert_line(f"{SMALL} -b 1", "line")
    assert (len(made.graphs[0].nodes), "bias left out" in made.notes[0]) == (1, True)


def test_lower_case_layouts_are_taken() -> None:
    upper, lower = (convert_line(f"{SMALL} --in_layout {name}", "l") for name in ("NHWC", "nhwc"))
    assert upper.graphs == lower.graphs


def test_a_transposed_convolution_is_the_data_gradient_of_the_opposite_one() -> None:
    line = "conv -n 2 -c 8 -H 14 -W 14 -k 6 -y 4 -x 4 -u 2 -v 2 -p 1 -q 1 -m trans -F 1"
    (graph,) = convert_line(line, "line").graphs
    dims = {tensor.name: tensor.dims for tensor in graph.tensors}
    assert dims == {"dy": (2, 8, 14, 14), "w": (8, 6, 4, 4), "dx": (2, 6, 28, 28)}


def test_statistics_of_a_mixed_batch_norm_are_float_and_its_scale_half() -> None:
    (graph,) = convert_line("bnormfp16fp32 -m 1 --forw 1 -s 1", "line").graphs
    types = {tensor.name: tensor.data_type for tensor in graph.tensors}
    assert (types["x"], types["scale"], types["mean"]) == ("half", "half", "float")


@pytest.mark.parametrize(
    ("line", "saying"),
    [("bnorm -m 1 --forw 2", True), ("bnorm -m 1 --forw 2 -r 1", False)],
)
def test_inference_without_running_statistics_says_that_it_is_training(line, saying) -> None:
    notes = convert_line(line, "line").notes
    assert saying == any("runs its training kernel" in note for note in notes)


def test_a_log_has_the_flag_of_running_statistics_where_the_driver_has_the_other() -> None:
    logged = "MIOpen(HIP): Command [LogCmdBNorm] ./bin/MIOpenDriver bnorm -m 1 --forw 2 -b 0 -s 1"
    (graph,) = convert_line(logged, "line").graphs
    assert graph.nodes[0].type == "BatchnormInferenceAttributesVarianceExt"


def test_pooling_to_the_same_size_may_pad_more_after_than_before() -> None:
    (graph,) = convert_line("pool -W 1x1x8x8 -y 2 -x 2 -z same -F 1", "line").graphs
    attributes = graph.nodes[0].attributes
    assert (attributes["pre_padding"], attributes["post_padding"]) == ((0, 0), (1, 1))


def test_a_line_means_the_same_as_the_graph_of_its_shape() -> None:
    path = ROOT / "tests" / "data" / "graphs" / "conv_fwd_dilated_channels_last.json"
    line = (
        "convbfp16 -n 2 -c 8 -H 12 -W 10 -k 6 -p 2 -q 2 -l 2 -j 2 --in_layout NHWC "
        "--out_layout NHWC -F 1"
    )
    (graph,) = convert_line(line, "line").graphs
    assert fingerprint(read_graph(path.read_bytes(), "file")) == fingerprint(graph)


def test_graphs_of_many_commands_appear_once() -> None:
    made = convert_lines(f"{SMALL}\n{SMALL} -b 1\n", "file")
    assert (len(made.commands), len(graphs_of(made.commands))) == (2, 1)


LINES = st.sampled_from(
    (
        "convfp16",
        "convbfp16 -m trans",
        "conv -z same",
        "bnorm -m 1",
        "pool -W 2x3x9x9",
        "activ",
        "gemm",
        "softmax",
        "layernorm -m 1",
    )
)


@given(LINES, st.integers(1, 64))
def test_the_canonical_command_gives_the_same_graphs(line: str, n: int) -> None:
    sized = f"{line} -n {n}" if not line.startswith(("pool", "layernorm")) else line
    made = convert_line(sized, "line")
    assert made.graphs == convert_line(made.command, "line").graphs


@given(LINES, st.text(max_size=30))
def test_garbage_behind_a_command_never_crashes_the_reader(line: str, tail: str) -> None:
    try:
        outcome = convert_line(f"{line} {tail}", "line").command
    except GraphError as error:
        outcome = str(error)
    assert outcome
