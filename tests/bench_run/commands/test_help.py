"""Help: every flag in one topic, a first page of what people use, fast, at most 80 columns."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from importlib import import_module

import pytest
from bench_schema.usage import EXIT_CODES, guide, laid_out

from bench_run.cli import main
from bench_run.commands import COMMANDS
from bench_run.commands.help import GUIDES, PAGE, page
from bench_run.commands.usage import FLAGS, topic
from bench_run.settings import TOPICS
from tests.conftest import ROOT

TOPIC_TEXTS = {name: topic(name) for name in TOPICS}


def flags_of(text):
    words = [line.split() for line in text.splitlines() if line.startswith("  -")]
    return [next(word for word in line if word.startswith("--")) for line in words]


def test_every_flag_is_in_exactly_one_topic():
    described = [flag for text in TOPIC_TEXTS.values() for flag in flags_of(text)]
    assert sorted(FLAGS) == sorted(described)


def test_the_first_page_shows_the_flags_that_people_use():
    common = [flag for flag, row in FLAGS.items() if row.common]
    assert (common, True) == (flags_of(PAGE), len(common) <= 26)


def test_the_caches_are_told_apart_by_the_first_words_of_their_help():
    flags = ("--cache", "--cache-dir", "--warm-caches", "--reference-cache")
    assert 4 == len({" ".join(FLAGS[flag].help.split()[:3]) for flag in flags})


def test_the_first_page_names_every_command_and_topic():
    words = set(PAGE.replace(",", " ").replace(";", " ").split())
    assert {*COMMANDS, *TOPIC_TEXTS, *GUIDES, "all"} - {"run"} <= words


@pytest.mark.parametrize("command", ["init", "import", "judge", "tune"])
def test_the_first_page_has_an_example_of_each_command_that_makes_something(command):
    assert f"  bench-run {command} " in PAGE.partition("The options used most")[0]


def test_exit_codes_mean_the_same_in_help_and_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"(\d) ([^;.]+)", " ".join(EXIT_CODES.split())))
    rows = re.findall(r"^\| (\d) \| ([^|]+) \|", readme, re.MULTILINE)
    assert {code: text.strip() for code, text in rows} == told
    assert EXIT_CODES in PAGE


@pytest.mark.parametrize("columns", [60, 80, 140])
@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_is_laid_out_to_the_width_of_the_terminal(name, columns):
    page = guide("bench_run", name)
    lines = laid_out(page, columns, colored=False).splitlines()
    programs = {line.strip() for line in page.splitlines()}
    wide = [line for line in lines if len(line) > min(columns, 100)]
    assert [] == [line for line in wide if line.strip() not in programs]
    assert "|" not in "".join(lines[:3])
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("tool", ["bench_run", "bench_compare"])
def test_a_guide_has_colours_on_a_terminal_only(tool):
    pty = pytest.importorskip("pty")
    word = {"bench_run": "judge", "bench_compare": "noise"}[tool]
    command = [sys.executable, "-m", tool, "help", word]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "70"}
    environment.pop("NO_COLOR", None)

    def on_a_terminal(**more):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(command, stdout=theirs, env={**environment, **more})
        os.close(theirs)
        read = b""
        with contextlib.suppress(OSError):  # the other end was closed
            while chunk := os.read(ours, 65536):
                read += chunk
        os.close(ours)
        assert process.wait() == 0
        return read.decode()

    assert "\x1b[" in on_a_terminal()
    assert "\x1b[" not in on_a_terminal(NO_COLOR="1")
    piped = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert piped.stdout.startswith(guide(tool, word))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_no_wider_than_80_columns(command):
    assert [] == [line for line in page(command).splitlines() if len(line) > 80]


@pytest.mark.parametrize("topic", TOPIC_TEXTS)
def test_help_of_a_topic_is_no_wider_than_80_columns(topic):
    assert [] == [line for line in TOPIC_TEXTS[topic].splitlines() if len(line) > 80]


@pytest.mark.parametrize("path", sorted(ROOT.glob("bench_*/docs/*.md")), ids=lambda p: p.stem)
def test_the_sentences_of_a_guide_are_no_wider_than_80_columns(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [] == [line for line in text.splitlines() if len(line) > 80 and line[0] != "|"]


def test_commands_that_a_guide_names_are_commands():
    text = "".join(guide("bench_run", name) for name in GUIDES)
    words = set(re.findall(r"^bench-run ([a-z]+) ", text, re.MULTILINE))
    assert ({"import", "tune"} <= words, words <= set(COMMANDS)) == (True, True)


def test_help_on_networks_goes_from_the_model_to_the_whole(capsys):
    code = main(["help", "networks"])
    assert (0, guide("bench_run", "networks").strip()) == (code, capsys.readouterr().out.strip())


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "run"])
def test_a_command_of_the_table_has_a_usage_that_names_it(command):
    assert f"  bench-run {command}" in import_module(COMMANDS[command]).USAGE


@pytest.mark.parametrize("words", [("--help",), *((name, "--help") for name in COMMANDS)])
def test_help_loads_neither_numpy_nor_typing(words):
    program = (
        f"import sys; from bench_run.cli import main; main({list(words)!r}); "
        "sys.stderr.write(str(sorted({'numpy', 'typing', 'docopt'} & set(sys.modules))))"
    )
    paths = f"{ROOT}:{ROOT / 'schema'}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        env={"PYTHONPATH": paths},
    )
    assert "[]" == done.stderr


def test_a_usage_error_loads_neither_numpy_nor_the_options(root):
    program = (
        "import sys; from bench_run.cli import main; main(['--itres', '3']); "
        "sys.stdout.write(str(sorted({'numpy', 'bench_run.options'} & set(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=root,
        check=True,
        env={"PYTHONPATH": f"{root}:{root / 'schema'}"},
    )
    assert "[]" == done.stdout


@pytest.mark.long
def test_help_with_a_topic_shows_the_topic(bench_run_command):
    text = bench_run_command("help", "measure").stdout
    assert text.startswith(topic("measure", rare=False))
    assert "bench-run help config" in text


def test_help_all_and_help_config_show_every_flag_once(bench_run_command):
    usual = flags_of(bench_run_command("help", "all").stdout)
    rare = re.findall(r"^\| `(--[\w-]+)", bench_run_command("help", "config").stdout, re.MULTILINE)
    assert sorted(FLAGS) == sorted([*usual, *rare])
    assert len(usual) <= 45


def test_help_with_a_commands_name_shows_its_usage(bench_run_command):
    assert page("coverage") in bench_run_command("help", "coverage").stdout
