"""The command: exit codes, one line an error, nothing where it does not belong."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from bench_schema.files import save

from bench_compare.cli import main
from bench_compare.commands.compare import USAGE
from bench_compare.metrics import METRICS
from bench_compare.report import FORMATS
from tests.bench_compare.build import case, document, on_device, steady

FACTORS = {"a": 1.0, "b": 1.0, "slow": 1.1}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """a.json and b.json of one build, slow.json of a slower one; the test runs beside them."""
    monkeypatch.chdir(tmp_path)
    for seed, (name, factor) in enumerate(FACTORS.items()):
        random = np.random.default_rng(seed)
        cases = [case(f"g{n}", on_device(steady(random, factor * 1e6))) for n in range(3)]
        save(tmp_path / f"{name}.json", document(cases, run_id=name))
    return tmp_path


def error_line(capsys):
    """The one line on stderr, without the command's name."""
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bench-compare: ")
    return line


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a.json b.json", 0),
        ("a.json slow.json", 2),
        ("slow.json a.json", 0),
        ("a.json slow.json --allow g*", 0),
        ("a.json slow.json --allow c*", 2),
        ("a.json slow.json --fail-on none", 0),
        ("a.json slow.json --fail-on init_ns", 2),
        ("a.json slow.json --fail-on only:init_ns", 0),
        ("a.json slow.json --threshold 20%", 0),
        ("a.json slow.json --base slow.json", 0),
        ("a.json b.json slow.json", 2),
        ("--a a.json --b slow.json", 2),
        ("--a a.json --b b.json", 0),
        ("--aa a.json", 1),
        ("a.json missing.json", 1),
        ("a.json", 0),
        ("a.json a.json", 1),
        ("a.json --threshold 2%", 1),
        ("", 1),
        ("--frobnicate", 1),
        ("a.json b.json --metric energy_j", 1),
    ],
)
def test_the_exit_code_is_the_answer(files, words, expected, capsys):
    assert main(words.split()) == expected
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "no documents given"),
        ("a.json --fail-on slower", "a.json: one document; a second one is needed"),
        ("a.json missing.json", "missing.json: cannot be read: No such file"),
        (f"a.json {'b' * 300}", "b: the name is too long for a file"),
        ("none*.json", "none*.json: no file matches"),
        ("a.json a.json", "a.json: one document"),
        ("--a a.json", "--a and --b come together"),
        ("b.json --a a.json --b slow.json", "either listed, or given by --a and --b"),
        ("a.json b.json --sort size", "--sort: 'size'; choose from news"),
        ("a.json b.json --color blue", "--color: 'blue'; choose from auto"),
        ("a.json b.json --metric time", "--metric: no metric 'time'; choose from"),
        ("a.json b.json --fail-on slow", "--fail-on: no verdict 'slow'"),
        ("a.json b.json --threshold 500", "--threshold: '500' is not between 0 and 100 %"),
        ("a.json b.json --policy p.toml", "p.toml: No such file"),
        ("a.json b.json --group-by colour", "--group-by: no grouping 'colour'"),
        ("a.json b.json --group-by engine", "only one engine, numpy"),
        ("a.json b.json --base c", "--base: no side 'c'"),
        ("a.json b.json --csv - --json -", "only one format can go to stdout"),
        ("a.json b.json --csv nowhere/x.csv", "nowhere/x.csv: cannot be written: No such file"),
        ("a.json b.json --nonsense", "no flag --nonsense; see bench-compare --help"),
        ("a.json b.json --treshold 2%", "no flag --treshold; did you mean --threshold?"),
        ("a.json b.json --markdwon x", "no flag --markdwon; did you mean --markdown?"),
        ("a.json b.json --json", "--json needs a value; see bench-compare --help"),
        ("a.json b.json --sort name --sort name", "--sort is given twice"),
        ("a.json b.json --a", "--a needs a value"),
        ("histroy results", "histroy: no such file or command; did you mean history?"),
        ("a.json history", "history is a command and comes first: bench-compare history"),
        ("history --evnts x", "no flag --evnts; did you mean --events?"),
        ("--a old/1.json old/2.json --b new/1.json", "expands it else: --a 'old/*.json'"),
        ("help verdict", "no help on 'verdict'; did you mean verdicts?"),
        ("--aa cut.json", "cut.json: the text ends too early"),
    ],
)
def test_every_error_is_one_line_on_stderr(files, words, sentence, capsys):
    (files / "cut.json").write_bytes((files / "a.json").read_bytes()[:500])
    assert main(words.split()) == 1
    assert sentence in error_line(capsys)


def test_a_pattern_that_names_no_graph_is_said_in_one_line(files, capsys):
    main(["a.json", "slow.json", "--allow", "c*", "--allow", "h1=slower", "--allow", "g1"])
    assert error_line(capsys).endswith("--allow: no graph here is, or fits, 'c*', 'h1=slower'")


def test_a_hostile_file_name_cannot_forge_lines_or_colours(files, capsys):
    assert main(["a\nb\x1b[31m.json"]) == 1
    assert "\x1b" not in error_line(capsys)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "text"])
def test_every_format_has_a_flag_that_writes_a_file(files, name, capsys):
    assert main(["a.json", "slow.json", f"--{name}", "out", "-q"]) == 2
    assert (files / "out").stat().st_size > 0
    assert capsys.readouterr().out.startswith("FAIL: 3 of 3 slower (worst 1.1×, ")


def test_a_format_on_stdout_takes_the_place_of_the_table(files, capsys):
    main(["a.json", "slow.json", "--json", "-"])
    assert len(json.loads(capsys.readouterr().out)["cases"]) == 3


def test_an_old_report_stays_whole_when_the_new_one_cannot_be_written(files, capsys):
    (files / "folder").mkdir()
    assert main(["a.json", "b.json", "--csv", "folder"]) == 1
    assert "folder: cannot be written" in error_line(capsys)
    assert [path.name for path in files.iterdir() if path.name.startswith(".")] == []


def test_strict_names_what_differs(files, capsys):
    random = np.random.default_rng(9)
    other = document([case("g0", steady(random, 1e6))], run_id="x", settings={"cache": "cold"})
    save(files / "cold.json", other)
    assert main(["a.json", "cold.json", "--strict", "--allow", "*"]) == 1
    out, err = capsys.readouterr()
    assert "cache differs: hot against cold (cold.json)" in out
    assert not err


def test_a_problem_is_said_once_on_stderr_where_stdout_holds_a_document(files, capsys):
    random = np.random.default_rng(9)
    save(files / "x.json", document([case("elsewhere", steady(random, 1e6))], run_id="x"))
    assert main(["a.json", "x.json", "--json", "-"]) == 1
    line = "bench-compare: nothing compared: the documents have no case in common\n"
    assert capsys.readouterr().err == line


@pytest.mark.long
def test_a_process_says_all_that_the_function_says(files, capsys):
    words = ["a.json", "slow.json", "--all"]
    code = main(words)
    command = [sys.executable, "-m", "bench_compare", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, *capsys.readouterr())


@pytest.mark.long
def test_a_page_on_the_way_to_nobody_ends_quietly(files):
    command = f"{sys.executable} -m bench_compare a.json slow.json --json - | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{", "")


STREAMS = {
    "full stdout": (">/dev/full", 1, "cannot write to stdout: No space left on device"),
    "closed stdout": (">&-", 1, "cannot write to stdout: it is closed"),
    "full stderr": ("2>/dev/full", 0, ""),
    "closed stderr": ("2>&-", 0, ""),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("words", ["a.json b.json --json r.json", "--help"])
def test_a_stream_that_takes_nothing_is_one_line(files, words, name):
    redirection, code, sentence = STREAMS[name]
    command = f"{sys.executable} -m bench_compare {words} {redirection}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (code, bool(sentence)) == (done.returncode, bool(done.stderr))
    assert sentence in done.stderr
    assert done.stderr.count("\n") <= 1
    assert ("--json" in words) == (files / "r.json").exists()


@pytest.mark.long
def test_a_table_is_spelled_for_terminals_that_lack_a_sign(files, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    command = [sys.executable, "-m", "bench_compare", "a.json", "slow.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    assert "\\x" not in done.stdout


@pytest.mark.long
def test_control_c_is_one_line(files):
    process = subprocess.Popen(  # it reads a pipe that nobody writes to
        [sys.executable, "-m", "bench_compare", "/dev/stdin", "a.json"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[1] == b"bench-compare: interrupted\n"
    assert process.returncode == 1


@pytest.mark.parametrize("words", [["--version"], ["compose", "--version"]])
@pytest.mark.parametrize("tool", ["bench_run", "bench_compare"])
def test_the_version_loads_next_to_nothing(tool, words):
    words = words[-1:] if tool == "bench_run" else words
    code = (
        f"import sys; from {tool}.cli import main; assert main(sys.argv[1:]) == 0; "
        "heavy = {'numpy', 'plotly', 'docopt', 'orjson', 'msgspec'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(rf"{tool.replace('_', '-')} \S+\n", done.stdout)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_teaches_and_loads_next_to_nothing(flag):
    code = (
        "import sys; from bench_compare.cli import main; assert main([sys.argv[1]]) == 0; "
        "heavy = {'numpy', 'plotly', 'docopt', 'orjson', 'tabulate'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code, flag], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, USAGE)


@pytest.mark.parametrize(
    ("word", "lines"),
    [
        ("", ("Usage:", "Examples:", "documents  verdicts  show  output  answers")),
        ("documents", ("Which documents are compared:", "  --group-by HOW")),
        ("verdicts", ("What counts:", "  --allow-no-answer")),
        ("show", ("What to show:",)),
        ("output", ("  --json FILE",)),
        ("answers", ("The last line says PASS",)),
        ("history", ("  --since WHEN",)),
        ("compose", ("  --choose WHAT",)),
        ("all", ("  --group-by HOW", "  --json FILE")),
    ],
)
def test_help_has_topics(word, lines, capsys):
    assert main(["help", *word.split()]) == 0
    out = capsys.readouterr().out
    assert [] == [line for line in lines if line not in out]


def test_a_usage_error_loads_no_numpy():
    code = (
        "import sys; from bench_compare.cli import main; "
        "assert main(['a.json', '--threshold', 'x']) == 1; assert 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.long
def test_a_table_loads_no_plotly(files):
    code = (
        "import sys; from bench_compare.cli import main; main(['a.json', 'b.json']); "
        "heavy = {'plotly', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_calibration_is_written_by_an_aa_test_and_used(files, capsys):
    assert main(["--aa", "a.json", "b.json", "--save-calibration", "c.json", "-q"]) == 0
    assert main(["a.json", "b.json", "--calibration", "c.json"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("a.json b.json --save-calibration c.json", "--save-calibration comes with --aa"),
        ("a.json b.json --calibration none.json", "none.json: No such file"),
        ("a.json b.json --calibration a.json", "a.json: not a calibration"),
        ("a.json b.json --max-unclear many", "--max-unclear: expected a number of cases or a"),
        (
            "a.json b.json --csv o.txt --json ./o.txt",
            "--json ./o.txt: --csv o.txt writes there, too",
        ),
        ("a.json b.json --html=", "--html: the name of a file is empty"),
        (
            "a.json b.json --json ./b.json",
            "--json ./b.json: DOC b.json is read",
        ),
        (
            "--aa a.json b.json --save-calibration a.json",
            "a.json: DOC a.json is read",
        ),
    ],
)
def test_what_is_asked_for_in_vain_is_one_line(files, words, sentence, capsys):
    assert main(words.split()) == 1
    assert sentence in error_line(capsys)


def test_version_is_said(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("bench-compare ")


def test_help_fits_a_terminal_of_a_hundred_columns():
    assert max(map(len, USAGE.splitlines())) <= 100


def test_every_metric_has_a_title_and_a_threshold():
    assert all(row.title and 0 < row.threshold_ratio < 1 for row in METRICS.values())


@pytest.mark.parametrize(("columns", "widest"), [("40", 40), ("70", 70), ("7", 40), ("200", 200)])
def test_columns_count_without_a_terminal(files, columns, widest, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    main(["a.json", "slow.json", "--all"])
    *lines, answer = capsys.readouterr().out.splitlines()
    assert answer.startswith("FAIL: 3 of 3 slower")  # one line, for programs
    assert 0.75 * min(widest, 100) <= max(map(len, lines)) <= widest


def test_the_help_fits_into_80_columns(capsys):
    main(["--help"])
    assert [] == [line for line in capsys.readouterr().out.splitlines() if len(line) > 80]


@pytest.mark.parametrize(
    ("words", "word"),
    [("a.json b.json", "PASS"), ("a.json slow.json", "FAIL"), ("a.json folder", "UNDECIDED")],
)
def test_the_last_line_is_the_same_everywhere(files, words, word, capsys):
    (files / "folder").mkdir()
    (files / "folder" / "b.json").write_bytes((files / "b.json").read_bytes())
    (files / "folder" / "note.json").write_text('{"not": "a result"}')
    formats = {"json": "r.json", "markdown": "r.md", "junit": "r.xml", "html": "r.html"}
    flags = [word for name, file in formats.items() for word in (f"--{name}", file)]
    code = main([*words.split(), *flags])
    line = capsys.readouterr().out.splitlines()[-1]
    record = json.loads((files / "r.json").read_text())["conclusion"]
    assert line.startswith(f"{word}: ")
    assert line == f"{record['word']}: {record['sentence']}"
    assert code == record["exit_code"] == {"PASS": 0, "FAIL": 2, "UNDECIDED": 1}[word]
    assert f"{word}: " in (files / "r.md").read_text().splitlines()[0]
    assert line in (files / "r.xml").read_text().splitlines()[2]
    assert main([*words.split(), "-q"]) == code
    assert capsys.readouterr() == (f"{line}\n", "")


def test_a_folder_with_an_unreadable_document_is_undecided_unless_allowed(files, capsys):
    (files / "folder").mkdir()
    (files / "folder" / "b.json").write_bytes((files / "b.json").read_bytes())
    (files / "folder" / "cut.json").write_bytes((files / "b.json").read_bytes()[:500])
    assert main(["a.json", "folder", "-q"]) == 1
    assert "UNDECIDED: folder/cut.json: the text ends too early" in capsys.readouterr().out
    assert main(["a.json", "folder", "-q", "--allow-no-answer"]) == 0
    assert capsys.readouterr().out.startswith("UNDECIDED: ")
    assert main(["slow.json", "--allow-no-answer", "missing.json"]) == 1


@pytest.mark.parametrize(
    ("words", "level"), [("a.json b.json", "notice"), ("a.json slow.json", "error")]
)
def test_github_gets_an_annotation_only_there(files, words, level, monkeypatch, capsys):
    main(words.split())
    assert "::" not in capsys.readouterr().out
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    main(words.split())
    first, *_, last = capsys.readouterr().out.splitlines()
    assert f"::{level}::{last.replace('%', '%25')}" == first
    main([*words.split(), "--json", "-"])
    out, err = capsys.readouterr()
    assert json.loads(out)["conclusion"]["sentence"] in last
    assert err == f"{first}\n"


@pytest.mark.parametrize("name", ["text", "markdown", "junit", "csv", "html"])
def test_a_slow_down_that_is_allowed_looks_allowed(files, name, capsys):
    if name == "text":
        assert main(["a.json", "slow.json", "--allow", "g*"]) == 0
        said = capsys.readouterr().out
    else:
        assert main(["a.json", "slow.json", "--allow", "g*", f"--{name}", "out", "-q"]) == 0
        said = (files / "out").read_text(encoding="utf-8")
    looks = {"csv": ",true,"}
    assert looks.get(name, "slower, allowed") in said.replace(": ", ":")
