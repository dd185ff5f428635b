"""The command lines of the documents that this project implements, as they are written there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench_run.commands.run import USAGE
from bench_run.errors import UsageError
from bench_run.options import read_options

pytestmark = pytest.mark.long


def options(*words: str):
    from docopt import docopt

    return read_options(docopt(USAGE, list(words), default_help=False))


@pytest.mark.parametrize(
    ("words", "engine", "a", "b"),
    [
        ("--engine-id 12", ("hipdnn:12",), None, None),
        ("--engine-id -7", ("hipdnn:-7",), None, None),
        ("--engine-id eng1 -e cudnn", ("cudnn:eng1",), None, None),
        ("--engine-id 2 -e hipdnn+x@/p", ("hipdnn:2+x@/p",), None, None),
        ("--AId 1 --BId 2", (), "hipdnn:1", "hipdnn:2"),
        ("--APath /a --AId 1 --BPath /b --BId 2", (), "hipdnn:1@/a", "hipdnn:2@/b"),
        ("--AId 1 --BPath /b --BId 1", (), "hipdnn:1", "hipdnn:1@/b"),
        ("--AId eng1 --BId eng2 -e cudnn", (), "cudnn:eng1", "cudnn:eng2"),
    ],
)
def test_the_flags_of_dnn_benchmarking_say_what_engine_a_and_b_say(words, engine, a, b):
    found = options("g.json", *words.split())
    assert (found.engine, found.a, found.b) == (engine, a, b)


@pytest.mark.parametrize("words", ["g.json", "-g g.json", "--graph g.json", "--graph=g.json"])
def test_a_graph_is_an_argument_or_a_flag(words):
    assert options(*words.split()).graphs == ("g.json",)


def test_the_short_flags_set_iterations_and_warm_up():
    found = options("-g", "a.json", "-w", "3", "-i", "40", "b.json")
    assert (found.graphs, found.warmup, found.iterations) == (("a.json", "b.json"), 3, 40)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--AId 1", "--AId goes with --BId ID: A/B mode needs --AId and --BId"),
        ("--BId 1", "--BId goes with --AId ID: A/B mode needs --AId and --BId"),
        ("--APath /a --BId 1", "--APath goes with --AId ID: A/B mode needs --AId and --BId"),
        ("--AId 1 --BId 2 --a numpy", "--AId and --a: give one or the other"),
        ("--AId 1 --BId 2 --engine-id 3", "--engine-id and --AId: give one or the other"),
        ("--AId= --BId 2", "--AId: expected an engine's number or name, got ''"),
        ("--engine-id a+b", "--engine-id: expected an engine's number or name, got 'a+b'"),
        (
            "--engine-id 1 -e torch:cpu",
            "--engine-id 1: --engine torch:cpu has an id already; give one",
        ),
        ("--AId 1 --BId 2 -e 3", "--AId 1: --engine 3 has an id already; give one"),
        ("--AId 1 --BId 2 -e numpy -e torch", "--AId goes with one --engine, got 2: numpy torch"),
        ("-w -1", "--warmup: expected at least 0, got -1"),
        ("-i many", "--iters: expected a whole number, got 'many'"),
    ],
)
def test_flags_that_do_not_make_sense_say_which_and_why(words, sentence):
    with pytest.raises(UsageError) as caught:
        options("g.json", *words.split())
    assert str(caught.value) == sentence


def test_a_file_of_settings_may_use_these_flags_too(tmp_path):
    file = tmp_path / "bench.toml"
    file.write_text('graph = ["a.json"]\nengine_id = 3\n')
    found = options("--config", str(file))
    assert (found.graphs, found.engine) == (("a.json",), ("hipdnn:3",))


ROOT = Path(__file__).parents[1]
ROWS = re.findall(
    r"^\| (.+?) \| `(.+?)` \| (.*?) *\|$",
    (ROOT / "tests" / "SEEDS.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
QUICK = ("--rounds", "1", "--iters", "4", "--warmup", "1")
"""For commands that ask for no effort of their own."""


KNOBS = """\
fp32,11
fp16,12
samp,31 1,1,2,0 1.88 tensorHalfConvolution tensorConvApproxHalf
"""
OPS = """
[[graph]]
id = "conv"
op = "conv_fwd: n=1 c=2 h=4 w=4 k=2 r=3 s=3 pad=1"

[[graph]]
id = "act"
op = "relu: n=1 c=2 h=4 w=4"
tensor = { x = "conv:y" }
"""
WRONG = """
def kernel(x, w, y):
    y[...] = 0
"""
CONFIGURATIONS = """\
+++++
conf1 1 1 83.2 0.0
1 gpu batchnorm fp32 11
2 gpu conv fp32 11
3 gpu relu fp32 11
-----
+++++
conf2 1.84 2.01 82.9 0.3
1 gpu batchnorm fp32 11
2 gpu conv samp 31
3 gpu relu fp32 11
-----
"""


@pytest.fixture(scope="module")
def typed(warm_commands, tmp_path_factory):
    """Types a command in a folder, with hipDNN's double on the path, whose plugin counts its
    engines."""
    numbered = tmp_path_factory.mktemp("plugins")
    engines = [{"name": None, "id": 1}, {"name": None, "id": 2}]
    (numbered / "libnumbered.so").write_text(json.dumps({"engines": engines}))

    def run(folder, command):
        program, *words = shlex.split(command)
        if program == "bench-run" and not {"-i", "--iters", "coverage"} & {*words}:
            words += QUICK
        if "--iters" in words and "--rounds" not in words:
            words += ("--rounds", "2")
        paths = (ROOT, ROOT / "schema", ROOT / "tests" / "doubles")
        env = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "HIPDNN_PLUGIN_DIR": str(numbered)}
        env = os.environ | env
        if program == "bench-run":
            return warm_commands.run(words, folder, env, 120)
        command = [sys.executable, *words]
        if program != "python":
            command[1:1] = ["-m", program.replace("-", "_")]
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory, typed):
    """What the rows of the table name."""
    folder = tmp_path_factory.mktemp("seeds")
    for plugin in ("pluginA", "pluginB"):
        (folder / plugin).mkdir()
        engines = {"engines": [{"name": "MIOPEN_ENGINE", "id": 12}]}
        (folder / plugin / "libmiopen_plugin.so").write_text(json.dumps(engines))
    ops = (
        "conv_fwd: n=2 c=3 h=8 w=8 k=4 r=3 s=3",
        "batchnorm_inference: n=2 c=3 h=4 w=4",
        "relu: n=2 c=3 h=4 w=5",
    )
    words = [word for op in ops for word in ("--op", op)]
    done = typed(folder, f"bench-run {shlex.join(words)} --save-graphs graphs --dry-run")
    assert done.returncode == 0, done.stderr
    (made,) = (folder / "graphs").glob("conv*.json")
    made.rename(folder / "graphs" / "conv1_fwd.json")
    graph = "graphs/conv1_fwd.json"
    assert typed(folder, f"bench-run {graph} -q --write-golden golden").returncode == 0
    assert typed(folder, f"bench-run {graph} -q -e numpy -o a.json -i 50").returncode == 0
    for name, factor in (("b", 1), ("slow", 3), ("a", 1)):
        steady(folder / "a.json", folder / f"{name}.json", factor)
    shutil.copytree(ROOT / "graphs", folder / "samples")
    (folder / "ops.toml").write_text(OPS)
    (folder / "wrong.py").write_text(WRONG)
    files = sorted(path.name for path in (folder / "graphs").glob("*.json"))
    layers = (f'[[graph]]\nid = "{name[:4]}"\nfile = "graphs/{name}"\n' for name in files)
    (folder / "net.toml").write_text("\n".join(layers))
    (folder / "knobs.txt").write_text(KNOBS)
    (folder / "confs.txt").write_text(CONFIGURATIONS)
    return folder


CHROMIUM = Path("/usr/bin/chromium")


def drawn(page):
    """The page as a browser has drawn it."""
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000")
    size = "--window-size=1400,4000"
    words = [str(CHROMIUM), *flags, size, "--dump-dom", page.as_uri()]
    return subprocess.run(words, capture_output=True, text=True, timeout=120).stdout


def steady(path, target, factor):
    """The same document as a quiet machine measures it: samples that scatter by 1 %, `factor` times
    as long."""
    document = json.loads(path.read_text())
    document["run"]["id"] = target.stem
    for case in document["cases"]:
        for one in case["rounds"]:
            for samples in one["series"].values():
                samples[:] = [factor * (9_900 + 20 * (7 * k % 11)) for k in range(len(samples))]
        for summary in case["summary"].values():
            scale = factor * 1e4 / summary["median"]
            summary |= {k: scale * v for k, v in summary.items() if k != "count" and v is not None}
    target.write_text(json.dumps(document))


@pytest.mark.parametrize(("wish", "command", "words"), ROWS, ids=[row[0] for row in ROWS])
def test_a_wish_works_as_its_document_writes_it(typed, folder, wish, command, words):
    code, said = 0, words
    if words.startswith("exit "):
        code, said = int(words[5]), words[8:]
    done = typed(folder, command)
    if wish.startswith("counters") and "counters of" not in done.stdout and "perf" in done.stderr:
        pytest.skip("perf may not count on this machine, as the command says")
    assert done.returncode == code, done.stdout + done.stderr
    name, _, inside = said.partition(": ")
    if name in command and (folder / name).is_file():
        assert inside in (folder / name).read_text(encoding="utf-8")
        if name.endswith(".html") and CHROMIUM.exists():
            assert "js-plotly-plot" in drawn(folder / name)
    else:
        assert said in done.stdout + (done.stderr if code else "")


def test_there_is_a_section_for_each_document():
    text = (ROOT / "tests" / "SEEDS.md").read_text(encoding="utf-8")
    assert 5 == text.count("\n## ")
    assert len(ROWS) >= 90


def test_the_extras_have_the_names_of_dnn_benchmarking():
    assert re.search(r"^dev = ", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
