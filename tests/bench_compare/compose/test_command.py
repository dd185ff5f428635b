"""The command as people use it: files, exit codes, one line an error, every format."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from bench_schema.document import Achieved, Outcome
from bench_schema.pipeline import read_pipeline

from bench_compare.cli import main
from bench_compare.commands.compose import USAGE
from bench_compare.report.json_text import schema
from tests.bench_compare.compose import worlds
from tests.bench_compare.compose.sample import composition
from tests.bench_compare.compose.worlds import CHAIN, LAYOUTS, TWO, World
from tests.bench_compare.report.shown import render


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    worlds.write_pipeline(TWO, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(TWO))
    worlds.save(tmp_path, "chain.json", worlds.chain(TWO, "e"))
    worlds.save(tmp_path, "slow.json", worlds.chain(TWO, "e", factor=1.5))
    return tmp_path


def told(capsys, *words):
    code = main(["compose", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_an_answer_is_printed_and_exits_with_0(folder, capsys):
    code, out, err = told(capsys, "net.toml", "parts.json", "--choose", "time")
    assert (code, err) == (0, "")
    assert out.startswith("net: 2.710 µs, 1.11× faster than e\n")


def test_the_baseline_is_named_in_every_format(folder, capsys):
    for name in ("markdown", "json"):
        _, out, _ = told(capsys, "net.toml", "parts.json", "--baseline", "f", f"--{name}", "-")
        assert "baseline" in out
        assert "baseline: f, 2.790 µs" in out or '"baseline_name": "f"' in out


def test_a_measurement_within_the_interval_exits_with_0(folder, capsys):
    assert told(capsys, "net.toml", "parts.json", "--against", "chain.json")[0] == 0


def test_a_measurement_outside_of_the_interval_exits_with_2(folder, capsys):
    code, out, _ = told(capsys, "net.toml", "parts.json", "--against", "slow.json")
    assert (code, "1.5× slower" in out) == (2, True)


def test_an_engine_without_all_layers_is_told_which_and_what_to_type(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    world = World({"a": {"e": 1000, "f": 10}, "b": {"e": 1000}})
    worlds.write_pipeline(world, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(world))
    code, out, _ = told(capsys, "net.toml", "parts.json", "--baseline", "f")
    assert (code, "f does not have a row of b: " in " ".join(out.split())) == (1, True)
    assert "bench-run b.json -e f -o missing-1.json" in out


def test_a_chain_of_one_round_that_is_far_off_is_undecided(folder, capsys):
    world = replace(TWO, states=(1.0,))
    worlds.save(folder, "parts.json", worlds.parts(world))
    worlds.save(folder, "slow.json", worlds.chain(world, "e", factor=1.5))
    code, out, _ = told(capsys, "net.toml", "parts.json", "--against", "slow.json")
    said = " ".join(out.split())
    assert (code, "1.5× slower than predicted, and the rounds cannot tell" in said) == (1, True)


@pytest.mark.parametrize(
    "words",
    [["parts.json", "copy.json"], ["parts.json", "--against", "chain.json", "--against=copy.json"]],
)
def test_a_run_in_two_files_is_refused(folder, capsys, words):
    """It would make intervals narrower than they are."""
    first = "chain.json" if "--against" in words else "parts.json"
    (folder / "copy.json").write_bytes((folder / first).read_bytes())
    code, _, err = told(capsys, "net.toml", *words)
    assert (1, f"bench-compare: copy.json: the same run as {first}; it must not count twice\n") == (
        code,
        err,
    )


def test_where_nothing_was_measured_in_joules_none_are_shown(folder, capsys):
    document = worlds.parts(TWO)
    alone = tuple(case for case in document.cases if not case.graph.layers)
    worlds.save(folder, "alone.json", replace(document, cases=alone))
    _, out, _ = told(capsys, "net.toml", "alone.json", "--json", "-")
    parts = json.loads(out)["chosen"]["parts"]
    assert {None} == {part["energy_j"] for part in parts}


@pytest.mark.parametrize(("words", "plan"), [((), "slow"), (("--within", "20%"), "even")])
def test_energy_is_chosen_within_a_share_of_the_least_time(
    words, plan, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    plans = {"e": 1000, "e plan=slow": 3000, "e plan=even": 1100}
    joules = {("a", name): one for name, one in zip(plans, (9e-3, 1e-3, 5e-3), strict=True)}
    world = World({"a": plans}, joules=joules)
    worlds.write_pipeline(world, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(world))
    _, out, _ = told(capsys, "net.toml", "parts.json", "--choose", "energy", *words, "--json", "-")
    assert {"a": f"e plan={plan}"} == json.loads(out)["chosen"]["choices"]


def test_what_a_layer_at_the_ceiling_would_give_is_told_slowest_first(
    tmp_path, monkeypatch, capsys
):
    """Of 3,000 ns two alike layers take 2,000 at 40 % of the ceiling: at 80 % they take half."""
    monkeypatch.chdir(tmp_path)
    world = World({"a": {"e": 1000}, "b": {"e": 1000}, "c": {"e": 1000}}, same={"b": "a"}, seams={})
    worlds.write_pipeline(world, tmp_path)
    document = worlds.parts(world)
    rates = {"a": 0.4, "c": 0.9}
    cases = [
        replace(c, achieved=Achieved("e2e_ns", ceiling_share=rates[c.graph.name]))
        if c.graph.name in rates
        else c
        for c in document.cases
    ]
    worlds.save(tmp_path, "parts.json", replace(document, cases=tuple(cases)))
    _, out, _ = told(capsys, "net.toml", "parts.json")
    said = " ".join(out.split())
    assert "if a reached 80 % of the ceiling (now 40 %), net would be 50 % faster" in said
    assert said.index("a 2 2.000 µs 66.7% 40% 50.0%") < said.index("c 1 1.000 µs 33.3% 90% 0.0%")


def test_csv_has_a_row_a_layer_and_time_and_energy_of_each_way_to_run_it(folder, capsys):
    worlds.save(folder, "alone.json", worlds.parts(TWO))
    code, out, _ = told(capsys, "net.toml", "alone.json", "--csv", "-")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert ["a", "b", "c"] == [row["layer"] for row in rows]
    for way in ("e", "f"):
        assert all(float(row[f"{way}_time_ns"]) > 0 for row in rows)
        assert f"{way}_energy_j" in rows[0]


def test_csv_has_the_conversions_into_the_form_of_a_way_and_out_of_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    worlds.write_pipeline(LAYOUTS, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(LAYOUTS))
    _, out, _ = told(capsys, "net.toml", "parts.json", "--csv", "-")
    rows = list(csv.DictReader(out.splitlines()))
    assert {"nchw_to_nhwc_time_ns", "nhwc_to_nchw_time_ns"} <= set(rows[0])
    assert any(row["nchw_to_nhwc_time_ns"] for row in rows)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('"a:y"', '"c:y"', "broken.toml: entries wait for each other: "),
        ('"a:y"', '"a:z"', "broken.toml: b: tensor.x: the graph has no output 'z'; there are y"),
        ('x" = "a:y"', 'q" = "a:y"', "broken.toml: b: tensor: the graph has no input 'q'; there"),
        ('["c:y"]', '["c:z"]', "broken.toml: output c:z: the graph has no output 'z'; there are y"),
        ('id = "b"', 'id = "a"', "broken.toml: two entries have the id 'a'"),
    ],
)
def test_a_pipeline_that_contradicts_itself_is_one_line(folder, capsys, before, after, sentence):
    text = (folder / "net.toml").read_text()
    (folder / "broken.toml").write_text(text.replace(before, after))
    code, out, err = told(capsys, "broken.toml", "parts.json")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert sentence in err


def changed(folder, change):
    """The table with other rounds, or other cases."""
    document = worlds.parts(TWO)
    worlds.save(folder, "odd.json", replace(document, cases=tuple(map(change, document.cases))))


def test_times_of_nothing_are_no_times(folder, capsys):
    def nothing(case):
        series = {"e2e_ns": np.zeros(5, np.int64)}
        return replace(case, rounds=tuple(replace(one, series=series) for one in case.rounds))

    changed(folder, nothing)
    code, _, err = told(capsys, "net.toml", "odd.json")
    assert (code, "no case has samples of e2e_ns that took longer than 1 ns" in err) == (1, True)


def test_joules_of_nothing_are_no_joules_and_the_layer_is_named(folder, capsys):
    def idle(case):
        joules = 0.0 if case.graph.name == "b" else 0.5
        rounds = (replace(one, energy_j_per_iteration=joules) for one in case.rounds)
        return replace(case, rounds=tuple(rounds))

    changed(folder, idle)
    code, out, err = told(capsys, "net.toml", "odd.json", "--choose", "energy")
    said = " ".join(out.split())
    assert (code, err) == (1, "")
    assert "layer b has no row whose energy was measured and is above" in said


def test_a_layer_whose_every_row_crashed_is_named_with_the_reason(folder, capsys):
    def crash(case):
        outcome = Outcome("crashed", "signal 11", "run")
        return replace(case, outcome=outcome, rounds=()) if case.graph.name == "b" else case

    changed(folder, crash)
    code, out, err = told(capsys, "net.toml", "odd.json", "--choose", "time")
    assert (code, err) == (1, "")
    assert "rows are missing: see below; layer b: e: crashed: signal 11" in " ".join(out.split())


def test_missing_rows_exit_with_1_and_print_the_line_to_run(folder, capsys):
    document = worlds.parts(TWO)
    few = replace(document, cases=tuple(c for c in document.cases if c.graph.name != "b"))
    worlds.save(folder, "few.json", few)
    code, out, err = told(capsys, "net.toml", "few.json")
    assert (code, "bench-run b.json -e e" in out) == (1, True)
    assert err == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no pipeline given: a suite file in .toml, see --help"),
        (["net.toml"], "no document given: result documents that hold the layers, see --help"),
        (["no.toml", "parts.json"], "no.toml: cannot be read: No such file or directory"),
        (["parts.json", "parts.json"], "parts.json: is not a suite: "),
        (["net.toml", "no.json"], "no.json: cannot be read: No such file or directory"),
        (["net.toml", "parts.json", "--choose", "speed"], "--choose: 'speed'; choose from time, "),
        (["net.toml", "parts.json", "--within", "5%"], "--within goes with --choose energy"),
        (
            ["net.toml", "parts.json", "--choose", "energy", "--within", "x"],
            "--within: expected a share as in 5% or 0.05, not 'x'",
        ),
        (
            ["net.toml", "parts.json", "--choose", "energy", "--within", "5"],
            "--within: expected a share as in 5% or 0.05, not '5'",
        ),
        (["net.toml", "parts.json", "--limit", "error=nan"], "--limit error: a number above 0 "),
        (["net.toml", "parts.json", "--limit", "speed=1"], "--limit: 'speed=1'; choose from error"),
        (["net.toml", "parts.json", "--fix", "a"], "--fix: expected LAYER=CONFIGURATION, got 'a'"),
        (["net.toml", "parts.json", "--fix", "a=g"], "--fix a=g: no such row of this layer; there"),
        (["net.toml", "parts.json", "--engine", "g"], "parts.json: no engine fits g"),
        (
            ["net.toml", "parts.json", "--cache", "cold"],
            "--cache cold: no document was measured so",
        ),
        (
            ["net.toml", "parts.json", "--metric", "device_ns"],
            "parts.json: no case has samples of ",
        ),
        (["net.toml", "chain.json"], "chain.json: no graph was measured alone"),
        (["net.toml", "empty"], "empty: no results in this folder"),
        (["net.toml", "parts.json", "--json", "no/x"], "no/x: cannot be written: No such file"),
        (["net.toml", "parts.json", "--json", "-", "--markdown", "-"], "only one format can go to"),
    ],
)
def test_bad_input_is_one_line_and_exits_with_1(words, sentence, folder, capsys):
    (folder / "empty").mkdir()
    code, _, err = told(capsys, *words)
    (line,) = err.splitlines()
    assert (code, line.startswith(f"bench-compare: {sentence}")) == (1, True), line


def test_a_folder_that_holds_other_json_is_one_line(folder, capsys):
    (folder / "graphs").mkdir()
    (folder / "graphs" / "a.json").write_text("{}")
    code, _, err = told(capsys, "net.toml", "graphs")
    assert (code, err) == (1, "bench-compare: graphs: no result document of bench-run in it\n")


def test_the_chosen_plans_are_saved_as_a_pipeline_that_names_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    world = World({"a": {"e": 100, "e plan=x y=1": 90}, "b": {"e": 100}})
    worlds.write_pipeline(world, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(world))
    (tmp_path / "sub").mkdir()
    told(capsys, "net.toml", "parts.json", "--choose", "time", "--save", "sub/best.toml")
    saved = read_pipeline(tmp_path / "sub" / "best.toml")
    assert [one.variant for one in saved.layers] == [{"plan": "x", "y": "1"}, {}]
    assert saved.layers[0].file.resolve() == (tmp_path / "a.json").resolve()
    assert saved.layers[0].fingerprint == worlds.fingerprint("a")


def test_a_saved_pipeline_composes_as_it_was_chosen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    world = World({"a": {"e": 100, "e plan=x": 90}, "b": {"e": 100}})
    worlds.write_pipeline(world, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(world))
    told(capsys, "net.toml", "parts.json", "--choose", "time", "--save", "best.toml")
    _, out, _ = told(capsys, "best.toml", "parts.json", "--json", "-")
    assert json.loads(out)["chosen"]["time"]["value"] == pytest.approx(190)


@pytest.mark.parametrize(
    ("world", "sentence"),
    [
        (TWO, "--save: the layers run on f and e, a chain on one engine: choose among"),
        (LAYOUTS, "--save: layer a runs with layout=nhwc, which is another graph; --fix 'a="),
    ],
)
def test_what_a_chain_cannot_run_is_not_saved(world, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    worlds.write_pipeline(world, tmp_path)
    worlds.save(tmp_path, "parts.json", worlds.parts(world))
    code, _, err = told(capsys, "net.toml", "parts.json", "--choose", "time", "--save", "best.toml")
    assert (code, err.startswith(f"bench-compare: {sentence}")) == (1, True), err
    assert not (tmp_path / "best.toml").exists()


def test_what_is_written_as_json_satisfies_the_schema_with_and_without_an_answer(folder, capsys):
    worlds.save(folder, "few.json", worlds.parts(CHAIN))
    for table in ("parts.json", "few.json"):
        _, out, _ = told(capsys, "net.toml", table, "--choose", "time", "--json", "-")
        assert [] == [
            *jsonschema.Draft202012Validator(schema("compose")).iter_errors(json.loads(out))
        ]


@pytest.mark.parametrize("name", ["text", "markdown", "json", "html"])
def test_every_format_names_device_cache_and_baseline(name):
    text = render(name, composition())
    assert all(word in text for word in ("NVIDIA H200", "hot", "cudnn"))


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_every_part_check_and_missing_line_is_shown(name):
    text = render(name, composition()).replace("\\", "")
    wanted = (
        "conv1 → relu",
        "conversion",
        "-600 ns",
        "-1.2%",
        "yes",
        "bench-run net/net.toml --seams -e cudnn --cache rotate -o rotate.json",
    )
    assert [word for word in wanted if word not in text] == []


def test_a_name_cannot_steer_the_terminal():
    made = replace(composition(), pipeline="net\x1b[2J")
    assert "\x1b" not in render("text", made)


def test_the_help_has_every_flag_and_format():
    flags = [word for word in USAGE.split() if word.startswith("--") and "=" not in word]
    known = {"--help", "--version", "--against", "--choose"}
    assert {"--baseline", "--limit", "--fix", "--json", "--markdown", "--html", *known} <= set(
        flags
    )


def test_asking_for_help_and_version_needs_nothing_else(capsys):
    assert (told(capsys, "--help")[0], told(capsys, "--version")[0]) == (0, 0)


@pytest.mark.parametrize("state", ["hot", "rotate", "cold", "weights-cold", "pass"])
def test_lines_of_missing_layers_and_conversions_are_taken_in_each_cache_state(state, tmp_path):
    world = replace(LAYOUTS, convert={})
    document = worlds.parts(world)
    run = replace(document.run, settings=replace(document.run.settings, cache=state))
    document = replace(document, run=run)
    few = replace(document, cases=tuple(c for c in document.cases if c.graph.name != "b"))
    layer = worlds.composed(world, tmp_path, few).missing[0]
    conversion = next(
        one
        for one in worlds.composed(world, tmp_path, document, choose="time").missing
        if one.kind == "conversion"
    )
    wanted = state if state != "hot" else None
    found = [_flag(line.command, "--cache") for line in (layer, conversion)]
    assert [wanted, None if state == "pass" else wanted] == found
    assert ("--seams" in layer.command) == (state == "pass")


@pytest.mark.parametrize(
    "command", [("bench-run", "net.toml"), ("bench-run", "--energy", "n.toml")]
)
def test_lines_ask_for_energy_once_where_it_counts(command, tmp_path):
    document = worlds.parts(CHAIN)
    document = replace(document, run=replace(document.run, command=command))
    (line, *_) = worlds.composed(CHAIN, tmp_path, document, choose="energy").missing
    assert (1, "energy") == (line.command.split().count("--energy"), line.kind)
    few = replace(document, cases=tuple(c for c in document.cases if c.graph.name != "b"))
    layer = worlds.composed(CHAIN, tmp_path, few).missing[0].command
    assert ("--energy" in command) == ("--energy" in layer)


def _flag(line, name):
    words = shlex.split(line)
    return words[words.index(name) + 1] if name in words else None


@pytest.mark.long
def test_lines_of_missing_conversions_are_understood_by_bench_run(tmp_path):
    found = worlds.composed(replace(LAYOUTS, convert={}), tmp_path, choose="time")
    (line,) = [one.command for one in found.missing if one.kind == "conversion"]
    program, *words = shlex.split(line)
    words[words.index("-e") + 1] = "numpy"
    done = subprocess.run(
        [sys.executable, "-m", "bench_run", *words, "--dry-run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (program, done.returncode) == ("bench-run", 0), done.stderr
    assert "convert_n2c8h4w4_float_nchw_tonhwc" in done.stdout
    assert "convert_n2c8h4w4_float_nhwc_tonchw" in done.stdout
