"""What one feature does to another one: each line is a command that somebody typed."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest
from bench_schema.document import Settings
from bench_schema.settings import rows_of

from bench_compare.cli import main as bench_compare
from bench_run.cli import main as bench_run

QUICK = ("--rounds", "2", "-i", "4", "-w", "1", "--force")
ADD = "add: dims=8x8"
ZEROS = "import numpy as np\ndef exp(x):\n    return np.full_like(x, 12345)\n"


@pytest.fixture
def run(bench_run_command, tmp_path):
    """The finished command; with ``-o FILE`` its document is an attribute."""

    def run(*words, **given):
        quick = QUICK if "--rounds" not in words else ("--force",)
        done = bench_run_command(*words, *quick, **given)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


@pytest.fixture
def document(run, tmp_path):
    def document(name, *words):
        done = run(*words, "-o", name)
        assert (tmp_path / name).exists(), done.stderr
        return json.loads((tmp_path / name).read_text())

    return document


@pytest.fixture
def compare(tmp_path, monkeypatch, capsys):
    """`bench-compare` in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def compare(*words):
        capsys.readouterr()
        code = bench_compare([*map(str, words)])
        return SimpleNamespace(returncode=code, **capsys.readouterr()._asdict())

    return compare


# --- right stays right at the end of a type's range ---

AT_THE_END = [
    ("exp: dims=8x8 dtype=half", "--adversarial"),
    ("exp: dims=8x8 dtype=bfloat16", "--adversarial"),
    ("exp: dims=8x8 dtype=half", "--init=uniform:-1000:1000"),
    ("exp: dims=8x8", "--init=uniform:200:700"),
    ("exp: dims=64x64", "--init=uniform:88.7228:88.7229"),
    ("sinh: dims=64x64", "--init=uniform:85:92"),
    ("cosh: dims=64x64", "--init=uniform:88.6:88.9"),
    ("cosh: dims=64x64 dtype=half", "--init=uniform:11.05:11.13"),
]


@pytest.mark.parametrize(("op", "word"), AT_THE_END)
def test_an_honest_engine_is_right_where_values_leave_the_type(run, op, word):
    done = run("--op", op, "-e", "numpy", word)
    assert (done.returncode, "PASSED" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_constant_is_wrong_in_every_element_that_overflows(run, tmp_path):
    (tmp_path / "zeros.py").write_text(ZEROS)
    words = ("--op", "exp: dims=8x8", "-e", "kernel@zeros.py", "--init", "uniform:200:700")
    done = run(*words)
    assert (done.returncode, "64 of 64 elements" in done.stdout) == (2, True), done.stdout


def test_a_finite_number_far_from_the_end_is_wrong_where_infinity_is_expected(run, tmp_path):
    (tmp_path / "low.py").write_text(
        "import numpy as np\ndef exp(x):\n    return np.minimum(np.exp(x), np.float32(3e38))\n"
    )
    words = ("--op", "exp: dims=8x8", "-e", "kernel@low.py", "--init", "uniform:90:95")
    assert 2 == run(*words).returncode


# --- what two documents do not share is said ---

OTHER = {
    "timer": "events",
    "cache": "cold",
    "duty": "sustained",
    "settle": "50..60",
    "math": "fast",
    "replay": True,
    "warmup": 3,
    "iterations": 8,
    "rounds": 4,
    "min_time_s": 0.5,
    "max_time_s": None,
    "seed": 3,
    "reference": "torch",
    "tolerance": "hipdnn",
    "rtol": 0.1,
    "atol": 0.1,
    "matched": 0.9,
    "cosine": 0.9,
    "check_budget_s": 1.0,
    "init": ["constant:0"],
    "interleave": "visits",
    "placements": 2,
    "executions": 5,
    "knobs": {"split": "2"},
    "threads": 4,
    "vendor_caches": "user",
    "pass_bytes": 4096,
    "strict": True,
}
BEFORE = {"pass_bytes": 1024}
"""Of the first document, where that is not the default."""
FREE = {
    # rules of when to stop: their effect is the number of rounds and iterations, which is said
    "precision_ratio",
    "timeout_s",
    "max_rounds",
    "until",
    "threshold_ratio",  # has a warning of its own
    # how rounds were prepared, which no sample shows
    "worker_start",
    "round_preparation",
    "device_parallelism",
}


def test_every_recorded_setting_must_agree_or_is_said_or_is_listed_here():
    assert set(rows_of(Settings)) == FREE | set(OTHER)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "a.json"
    assert 0 == bench_run(["--op", ADD, "-e", "numpy", *QUICK, "-q", "-o", str(path)])
    return path


@pytest.mark.parametrize("name", OTHER)
def test_a_setting_that_two_documents_do_not_share_is_named(plain, compare, tmp_path, name):
    tree = json.loads(plain.read_text())
    for file, values in (("a.json", BEFORE), ("b.json", OTHER)):
        tree["run"]["id"] = file
        tree["run"]["settings"] |= {name: values[name]} if name in values else {}
        (tmp_path / file).write_text(json.dumps(tree))
    done = compare("a.json", "b.json", "--json", "r.json", "--allow-no-answer", "-q")
    row = rows_of(Settings)[name]
    found = {one["name"] for one in json.loads((tmp_path / "r.json").read_text())["differences"]}
    assert row.word in found, done
    if row.agree == "must":
        assert 1 == compare("a.json", "b.json", "--strict").returncode


# --- the same graph twice ---


def test_a_graph_that_is_given_twice_is_run_once(run, document, compare, tmp_path):
    run("--op", ADD, "-e", "numpy", "--save-graphs", "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    words = ("one", "two", "--op", ADD, "--op", ADD, "-e", "numpy")
    done = run(*words, "-o", "a.json")
    assert "2 graphs left out" in done.stderr  # those of two folders are told apart by their paths
    assert 2 == len(json.loads((tmp_path / "a.json").read_text())["cases"])
    document("b.json", *words)
    assert 0 == compare("a.json", "b.json", "--fail-on", "none", "--allow-no-answer").returncode


def test_shards_of_a_graph_that_is_given_twice_are_one_run(run, bench_run_command):
    words = ("--op", ADD, "--op", ADD, "--op", "mul: dims=8x8", "-e", "numpy")
    for share in (1, 2):
        run(*words, "--shard", f"{share}/2", "-o", f"{share}.json")
    done = bench_run_command("merge", "1.json", "2.json", "-o", "all.json")
    assert 0 == done.returncode, done.stderr


# --- files that a run writes and reads ---


def test_golden_tensors_of_two_engines_are_written_without_complaint(run, tmp_path):
    done = run("--op", ADD, "--a", "numpy", "--b", "numpy", "--write-golden", "gold")
    assert (0, []) == (done.returncode, [x for x in done.stderr.split("\n") if "golden" in x])
    assert (tmp_path / "gold" / "add_8x8_float.json").exists()


def test_what_golden_inputs_leave_without_effect_is_said_and_not_claimed(run, document):
    run("--op", ADD, "-e", "numpy", "--write-golden", "gold")
    words = ("gold", "-e", "numpy", "--init", "constant:1", "--seed", "3")
    done = run(*words)
    assert "--init has no effect there: the inputs of 1 graph are golden" in done.stderr
    assert "--seed draws no inputs there" in done.stderr
    assert [] == document("a.json", *words)["run"]["settings"]["init"]


def test_arithmetic_that_numpy_does_not_have_is_said_and_not_claimed(run, document):
    words = ("--op", ADD, "-e", "numpy", "--math", "fast")
    assert "--math has no effect" in run(*words).stderr
    assert "fp32" == document("a.json", *words)["run"]["settings"]["math"]


def test_a_finished_run_is_called_finished(run, bench_run_command):
    run("--op", ADD, "-e", "numpy", "-o", "a.json")
    done = bench_run_command("--op", ADD, "-e", "numpy", "-i", "9", "-o", "a.json", "--resume")
    assert (done.returncode, "the finished run has" in done.stderr) == (1, True)


def test_graphs_of_the_command_line_take_the_place_of_those_in_the_file(run, tmp_path):
    (tmp_path / "c.toml").write_text(f'op = ["{ADD}", "mul: dims=8x8"]\n')
    done = run("--config", "c.toml", "--op", "sub: dims=8x8", "-e", "numpy", "--dry-run")
    assert ["sub_8x8_float"] == [x.split()[0] for x in done.stdout.split("\n") if " on numpy" in x]


# --- the verdict and its words ---


def test_outputs_that_nothing_was_held_against_are_not_called_right(document):
    words = ("--op", ADD, "-e", "numpy", "--reference", "none", "--adversarial")
    (case,) = document("a.json", *words)["cases"]
    assert "not checked" == case["validation"]["status"]
    assert any("adversarial: right on" in note for note in case["notes"])


@pytest.mark.parametrize(
    ("function", "code"), [("add(x, b): return x - b", 2), ("mul(x, b): return x * b", 1)]
)
def test_a_quiet_run_that_fails_says_why_in_a_line(run, tmp_path, function, code):
    (tmp_path / "k.py").write_text(f"def {function}\n")
    done = run("--op", ADD, "-e", "kernel@k.py", "-q")
    assert (code, "", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines()))


def test_a_quiet_merge_of_wrong_outputs_says_so(run, bench_run_command, tmp_path):
    (tmp_path / "k.py").write_text("def add(x, b):\n    return x - b\n")
    for share in (1, 2):
        words = ("--op", ADD, "--op", "add: dims=4x4", "-e", "kernel@k.py", "-o", f"{share}.json")
        run(*words, "--shard", f"{share}/2", "-q")
    done = bench_run_command("merge", "1.json", "2.json", "-o", "all.json", "-q")
    assert (2, "", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines()))
    assert "outputs of 2 cases are wrong" in done.stderr


def test_nothing_in_common_is_no_answer_and_no_failure(document, compare, tmp_path):
    document("a.json", "--op", ADD, "-e", "numpy")
    document("b.json", "--op", "mul: dims=8x8", "-e", "numpy")
    words = ("a.json", "b.json", "--junit", "j.xml")
    assert 1 == compare(*words).returncode
    assert 0 == compare(*words, "--allow-no-answer").returncode
    (suite,) = ET.parse(tmp_path / "j.xml").getroot()
    assert ("0", "0") == (suite.get("failures"), suite.get("errors"))


def test_a_case_that_lost_its_checks_counts_as_slower_too(document, compare, tmp_path):
    slow = "def matmul(a, b):\n    for _ in range(200):\n        c = a @ b\n    return c\n"
    (tmp_path / "slow.py").write_text(slow)
    words = ("--op", "matmul: m=64 n=64 k=64", "--rounds", "5", "-i", "20")
    document("a.json", *words, "-e", "numpy")
    document("b.json", *words, "-e", "kernel@slow.py", "--reference", "none")
    compare("a.json", "b.json", "--json", "r.json")
    counts = json.loads((tmp_path / "r.json").read_text())["counts"]
    assert (1, 1) == (counts["lost"], counts["slower"])


def test_what_another_engine_cannot_run_was_not_fixed(document, compare, tmp_path):
    (tmp_path / "k.py").write_text("def mul(x, b):\n    return x * b\n")
    ops = ("--op", ADD, "--op", "mul: dims=8x8")
    document("a.json", *ops, "-e", "kernel@k.py", "-e", "numpy")
    compare("a.json", "--group-by", "engine", "--json", "r.json", "--allow-no-answer")
    counts = json.loads((tmp_path / "r.json").read_text())["counts"]
    assert (0, 1) == (counts["fixed"], counts["added"])


# --- how many samples ---


def taken(document):
    return {
        case["engine"]: [len(one["series"]["e2e_ns"]) for one in case["rounds"]]
        for case in document["cases"]
    }


def test_without_a_number_samples_are_taken_by_their_time_and_a_line_says_how_many(run, tmp_path):
    done = run("--op", ADD, "--op", PRODUCT, "-e", "numpy", "--rounds", "2", "-o", "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["run"]["settings"]["iterations"] is None
    assert {"numpy": [360, 360]} == taken(document)
    assert "360 samples a round, by their time; --iters N takes exactly N of each case" in (
        done.stdout
    )


@pytest.mark.parametrize("engines", [("numpy",), ("numpy", "kernel@k.py")])
def test_a_number_is_what_is_taken_alone_and_beside_another_engine(document, tmp_path, engines):
    (tmp_path / "k.py").write_text("def add(x, b):\n    return x + b\n")
    words = [word for engine in engines for word in ("-e", engine)]
    made = document("a.json", "--op", ADD, *words, "--rounds", "3", "-i", "30")
    assert [[10] * 3] * len(engines) == list(taken(made).values())


def test_runs_with_a_number_and_by_time_are_compared_and_the_difference_is_said(document, compare):
    document("a.json", "--op", ADD, "-e", "numpy", "--rounds", "3")
    document("b.json", "--op", ADD, "-e", "numpy", "--rounds", "3", "-i", "60")
    text = compare("a.json", "b.json").out
    assert "iterations" in text
    assert "by time" in text


def test_what_was_taken_by_time_is_not_continued_or_merged_with_a_number(bench_run_command):
    ops = ("--op", ADD, "--op", PRODUCT, "-e", "numpy", "--rounds", "3", "-q")
    bench_run_command(*ops, "--shard", "1/2", "-o", "s1.json")
    bench_run_command(*ops, "--shard", "2/2", "-i", "30", "-o", "s2.json")
    merged = bench_run_command("merge", "s1.json", "s2.json", "-o", "m.json").stderr
    assert 'setting iterations: "by time" in s1.json, 30 in s2.json' in merged
    bench_run_command(*ops, "-o", "a.json")
    resumed = bench_run_command(*ops, "-i", "30", "--resume", "-o", "a.json").stderr
    assert 'iterations "by time", this one 30' in resumed


def test_several_engines_are_held_against_the_fastest_right_one(run, tmp_path):
    slow = "def matmul(a, b):\n    for _ in range(20):\n        c = a @ b\n    return c\n"
    (tmp_path / "slow.py").write_text(slow)
    (tmp_path / "wrong.py").write_text("def matmul(a, b):\n    return a * 0\n")
    kernels = ("-e", "kernel@slow.py", "-e", "kernel@wrong.py")
    done = run("--op", "matmul: m=64 n=64 k=64", "-e", "numpy", *kernels)
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("matmul")]
    found = {row[1]: row for row in rows if "µs" in row}
    assert "best" in found["numpy"]
    ratio = next(cell for cell in found["kernel@slow.py"] if cell.endswith("×"))
    assert float(ratio.removesuffix("×")) > 3
    assert "best" not in found["kernel@wrong.py"]


# --- tunings, records, kernels ---

PRODUCT = "matmul: m=16 n=16 k=16"


@pytest.fixture
def tuned(bench_run_command, tmp_path):
    """A record in a folder of its own, with the kernel beside it: the winner is the kernel."""
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "k.py").write_text("def matmul(a, b):\n    return a @ b\n")
    space = ("--space", "engine=numpy,kernel@rec/k.py")
    words = ("tune", "--op", PRODUCT, *space, "-o", "rec/r.json", "--rounds", "2", "-i", "4")
    done = bench_run_command(*words, "-q")
    assert 0 == done.returncode, done.stderr
    record = json.loads((tmp_path / "rec" / "r.json").read_text())
    (entry,) = record["tuned"]["entries"]
    engines = [candidate["engine"] for candidate in entry["candidates"]]
    entry["winner"] = next(i for i, key in enumerate(engines) if key.startswith("kernel"))
    (tmp_path / "rec" / "r.json").write_text(json.dumps(record))
    return "rec/r.json"


def test_a_record_is_read_from_any_folder(run, document, tuned, tmp_path):
    (case,) = document("a.json", "--op", PRODUCT, "--tuned", tuned)["cases"]
    assert case["engine"].startswith("kernel@")
    shutil.move(tmp_path / "rec", tmp_path / "moved")
    (case,) = document("b.json", "--op", PRODUCT, "--tuned", "moved/r.json")["cases"]
    assert "kernel@moved/k.py" == case["engine"]


def test_a_run_in_which_nothing_is_as_the_record_says_is_not_green(run, tuned):
    done = run("--op", ADD, "--tuned", tuned, "-q")
    assert (1, True) == (done.returncode, "none of 1 case is as the record says" in done.stderr)


def test_candidates_that_were_not_chosen_are_not_removed(run, document, compare, tuned, tmp_path):
    document("a.json", "--op", PRODUCT, "--tuned", tuned)
    done = compare("rec/r.json", "a.json", "--json", "r.json", "--allow-no-answer")
    counts = json.loads((tmp_path / "r.json").read_text())["counts"]
    assert 0 == counts["removed"], done.out


def test_missing_layers_of_a_kernel_name_its_file(tuned, compare, tmp_path):
    (tmp_path / "p.toml").write_text(
        f'about = "two layers"\n[[graph]]\nop = "{PRODUCT}"\n[[graph]]\nop = "{ADD}"\n'
    )
    done = compare("compose", "p.toml", "rec/r.json", "--baseline", "kernel")
    lines = [x for x in (done.out + done.err).split("\n") if "bench-run " in x]
    assert lines, done
    assert all("-e kernel " not in line for line in lines)


IN_TORCH = """import numpy as np
from bench_run import kernel
INPUTS = {"x": ("n", "n")}
SHAPES = {"small": {"n": 8}}
def reference(x):
    return np.sin(x)
def in_torch(x):
    import torch
    return torch.sin(x)
@kernel
def fast(x):
    assert isinstance(x, np.ndarray)
    return np.sin(x)
"""


def test_what_in_torch_imports_says_nothing_of_a_kernel(run, tmp_path):
    (tmp_path / "case.py").write_text(IN_TORCH)
    done = run("case.py", "-e", "kernel@case.py")
    assert (0, True) == (done.returncode, "PASSED" in done.stdout), done.stderr
