"""A file of many configurations comes back with real speed-ups and reductions of energy."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from bench_compare.cli import main
from tests.bench_compare.compose import worlds
from tests.bench_compare.compose.worlds import LAYOUTS, TWO, World

FILE = """\
# written by a tuner
+++++
conf1 1 1 83.2 0.0
*=e
-----
+++++
conf2 1.84 2.01 82.9 0.3
a=f
b=e
c=e
-----
"""
TYPES = World(
    {
        "a": {"e": 1000, "e dtype=half": 400},
        "b": {"e": 1000, "e dtype=half": 500},
        "c": {"e": 1000, "e dtype=half": 600},
    },
    convert={"e": (100, 120)},
)
KNOBS = """\
fp32,11
fp16,12
samp,31 1,1,2,0 1.88 tensorHalfConvolution tensorConvApproxHalf
"""
NUMBERED = """\
+++++
conf1 1 1 83.2 0.0
1 gpu conv fp32 11 add fp32 1 relu fp32 1
2 gpu conv fp32 11
3 gpu conv fp32 11
-----
+++++
conf2 9 9 80 3
1 gpu conv samp 31 relu fp32 1
2 gpu conv fp32 11
3 gpu conv fp32 11
-----
"""


JOULES = {
    (layer, engine): 1e-3 * factor for layer in "abc" for engine, factor in (("e", 1.0), ("f", 0.5))
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = replace(TWO, joules=JOULES)
    worlds.write_pipeline(world, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(world))
    (tmp_path / "confs.txt").write_text(FILE)
    return tmp_path


def said(capsys, *words):
    code = main(["compose", "net.toml", "parts.json", "--configurations", *words])
    return code, *capsys.readouterr()


def test_the_copy_has_the_speed_up_over_the_first_configuration(folder, capsys):
    code, out, _ = said(capsys, "confs.txt", "-o", "real.txt")
    first, second = (
        line.split() for line in (folder / "real.txt").read_text().splitlines() if "conf" in line
    )
    main(["compose", "net.toml", "parts.json", "--fix", "a=f", "--baseline", "e", "--json", "-"])
    alone = json.loads(capsys.readouterr().out)
    assert (code, first[:3], first[3:]) == (0, ["conf1", "1", "1"], ["83.2", "0.0"])
    assert float(second[1]) == pytest.approx(alone["ratios"]["time"]["value"], rel=1e-5)
    assert float(second[2]) == pytest.approx(alone["ratios"]["energy"]["value"], rel=1e-5)
    assert "2 configurations, conf1 is the baseline" in out


def test_lines_that_are_no_configuration_are_kept(folder, capsys):
    _, out, _ = said(capsys, "confs.txt", "-o", "-")
    assert [line for line in out.splitlines() if not line.startswith("conf")] == [
        line for line in FILE.splitlines() if not line.startswith("conf")
    ]


def test_the_first_configuration_is_the_baseline_whatever_it_is(folder, capsys):
    (folder / "turned.txt").write_text(FILE.replace("*=e", "*=f"))
    said(capsys, "turned.txt", "-o", "real.txt")
    assert "conf1 1 1 " in (folder / "real.txt").read_text()


def test_configurations_are_csv(folder, capsys):
    _, out, _ = said(capsys, "confs.txt", "--csv", "-")
    rows = list(csv.DictReader(out.splitlines()))
    assert ["conf1", "conf2"] == [row["configuration"] for row in rows]
    assert all(float(row["time_ns"]) > 0 for row in rows)


def test_layers_by_number_run_as_a_table_of_knobs_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    world = replace(TYPES, alone={**TYPES.alone, "a": {"e": 1000, "e approx=samp:1/2:0": 500}})
    worlds.write_pipeline(world, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(world))
    (tmp_path / "confs.txt").write_text(NUMBERED)
    (tmp_path / "knobs.txt").write_text(KNOBS)
    code, _, _ = said(capsys, "confs.txt", "--space", "knobs.txt", "-o", "real.txt")
    conf2 = next(x for x in (tmp_path / "real.txt").read_text().splitlines() if "conf2" in x)
    assert (0, True) == (code, 1.1 < float(conf2.split()[1]) < 1.3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("conf1 1 1\n", "confs.txt: expected blocks between +++++ and -----"),
        ("+++++\nconf1\n+++++\n", "confs.txt: line 3: a block begins within another one"),
        ("+++++\n-----\n", "confs.txt: line 2: a block without a name ends"),
        ("+++++\nc 1 1\nz=e\n-----\n", "no layer 'z'; there are a, b, c"),
        ("+++++\nc 1 1\n9 gpu conv fp16 1\n-----\n", "line 3: no layer 9; the pipeline has 3"),
        ("+++++\nc 1 1\n1 gpu conv samp 31\n-----\n", "samp 31 is in no table of knobs: --space"),
        ("+++++\nc 1 1\na e\n-----\n", "line 3: 'a e': expected LAYER=CONFIGURATION, or a layer's"),
    ],
)
def test_what_a_file_says_wrong_is_one_line(text, message, folder, capsys):
    (folder / "confs.txt").write_text(text)
    code, _, err = said(capsys, "confs.txt")
    assert (1, 1, True) == (code, err.count("\n"), message in err), err


def test_without_energy_the_reduction_is_not_a_number(folder, capsys):
    worlds.save(folder, "parts.json", worlds.parts(TWO))
    _, out, _ = said(capsys, "confs.txt", "-o", "-")
    assert ["nan", "nan"] == [line.split()[2] for line in out.splitlines() if "conf" in line]


def test_layouts_are_named_by_number_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    worlds.write_pipeline(LAYOUTS, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(LAYOUTS))
    (tmp_path / "confs.txt").write_text(FILE.replace("a=f", "a=e:layout=nhwc"))
    assert 0 == said(capsys, "confs.txt", "-o", "real.txt")[0]


def test_approximations_and_int8_are_ways_to_run_a_layer_without_conversions(
    tmp_path, monkeypatch, capsys
):
    """Their graphs keep the inputs and outputs of the layer."""
    monkeypatch.chdir(tmp_path)
    ways = {"e approx=samp:1/2:0": 500, "e dtype=int8": 600}
    world = World({"a": {"e": 1000, **ways}, "b": {"e": 1000}})
    worlds.write_pipeline(world, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(world))
    for way in ways:
        words = ["--fix", f"a={way}", "--json", "-"]
        assert main(["compose", "net.toml", "parts.json", *words]) == 0
        parts = json.loads(capsys.readouterr().out)["chosen"]["parts"]
        assert ["layer", "layer"] == [part["kind"] for part in parts if part["kind"] != "seam"]
