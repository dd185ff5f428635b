"""The walks of CONTRIBUTING: each adds its thing to a copy of the packages, by the files and rows
that the page names and no others, and uses it from the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("bench_run", "bench_compare", "schema")
PAGE = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
RELU = ("--op", "relu: dims=4x8", "--rounds", "1", "--iters", "3", "-q")

pytestmark = pytest.mark.long


class Checkout:
    """A copy of the packages that may be changed."""

    def __init__(self, folder):
        self.folder = folder
        for name in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)

    def write(self, path, text):
        (self.folder / path).write_text(text)

    def add(self, path, text, before=None, after=None, named=True):
        """Add text to a file, next to a line that it has once. `named`: the page has its name."""
        assert not named or path in PAGE or path.rpartition("/")[2] in PAGE, path
        line = before or after
        old = (self.folder / path).read_text()
        assert old.count(line) == 1, (path, line)
        new = text + line if before else line + text
        self.write(path, old.replace(line, new))

    def run(self, *words):
        """What a command prints; `python -c` where the first word is a program's."""
        command = ["-c", words[1]] if words[0] == "-c" else ["-m", *words]
        paths = os.pathsep.join((str(self.folder), str(self.folder / "schema")))
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_an_engine_is_a_file_and_a_row(checkout):
    checkout.write(
        "bench_run/engines/tiny.py",
        """
from dataclasses import replace

from bench_run.engines import numpy_engine
from bench_run.engines.base import Availability, ModuleAbilities

NAME, SUMMARY, INSTALL, ABILITIES = "tiny", "NumPy once more", "is here", ModuleAbilities()


def probe():
    return Availability(True, "here")


def open(spec, options):
    return numpy_engine.open(replace(spec, name="numpy"), options)
""",
    )
    row = '    "tiny": "bench_run.engines.tiny",\n'
    checkout.add("bench_run/engines/__init__.py", row, after="ENGINES = {\n")
    assert "PASSED" in checkout.run("bench_run", *RELU[:-1], "--engine", "tiny")
    assert "tiny" in checkout.run("bench_run", "engines")


def test_an_operator_is_a_row(checkout):
    row = 'sech = {text = "1/cosh(x)", grad = "-dy*y*tanh(x)"}\n'
    table = "bench_run/graph/make/operators/table.toml"
    checkout.add(table, row, after="[hyperbolic]\n")
    said = checkout.run("bench_run", "--op", "sech: dims=4x8 direction=fwd,bwd", *RELU[2:-1])
    assert "2 validation passed" in said


def test_a_mode_is_a_row_in_two_files_and_one_for_torch(checkout):
    row = '    "cube": PointwiseMode(1, 2, family="math", summary="x³"),\n'
    modes = "bench_run/graph/operations/pointwise.py"
    start = "POINTWISE_MODES: dict[str, PointwiseMode] = {\n"
    checkout.add(modes, row, after=start)
    formula = '    "cube": lambda x: x * x * x,\n'
    start = "UNARY: Mapping[str, Function] = {\n"
    checkout.add("bench_run/reference/pointwise.py", formula, after=start)
    start = "UNARY: Mapping[str, Callable[..., T]] = {\n"
    checkout.add("bench_run/engines/torch_engine/pointwise.py", formula, after=start)
    said = checkout.run("bench_run", "--op", "cube: dims=4x8", *RELU[2:-1])
    assert "PASSED" in said


def test_a_metric_is_a_row(checkout):
    row = '    Metric("name_size", "size of the name", "", "lower", Exact(lambda c: len(c.id))),\n'
    checkout.add("bench_compare/metrics.py", row, after="RESOURCES_ROWS = (\n")
    for name in ("a.json", "b.json"):
        checkout.run("bench_run", *RELU, "--engine", "numpy", "-o", name)
    words = ("--metric", "name_size", "--csv", "-", "--fail-on", "none", "--allow-no-answer")
    assert "name_size" in checkout.run("bench_compare", "a.json", "b.json", *words)


def test_a_question_to_the_workers_is_two_files(checkout):
    question = '''class Echo(Request[str], frozen=True):
    """Return the word."""

    word: str


'''
    start = "class Variants("
    checkout.add("bench_run/worker/messages.py", question, before=start)
    main = "bench_run/worker/main.py"
    method = "    def echo(self, request: messages.Echo) -> str:\n        return request.word\n\n"
    row = "    @answers(messages.Echo)\n"
    checkout.add(main, row + method, before="    @answers(messages.Variants)\n")
    program = """
from functools import partial
from bench_run.worker.messages import Echo
from bench_run.worker.parent.process import Worker
from bench_run.worker.life import WORKER, start_module
worker = Worker(partial(start_module, WORKER, {}))
print(worker.ask(Echo("hello"), 60.0))
worker.close()
"""
    assert "hello\n" == checkout.run("-c", program)


def test_an_observer_is_a_file_and_a_row(checkout):
    checkout.write(
        "bench_run/measure/observers/blocks.py",
        """
from bench_schema.document import Extra

from bench_run.measure.observers.base import Observer, Results


class Blocks(Observer):
    seen = 0

    def after_sample_block(self, measured):
        self.seen += 1

    def results(self):
        return Results(extra={"seen_blocks": Extra(self.seen)})
""",
    )
    table = "bench_run/measure/observers/__init__.py"
    imported = "from bench_run.measure.observers.blocks import Blocks\n"
    start = "from bench_run.measure.observers.energy import Energy\n"
    checkout.add(table, imported, before=start)
    checkout.add(table, "Blocks, ", after="OBSERVERS = (")
    assert "seen_blocks: 1" in checkout.run("bench_run", *RELU[:-1], "--engine", "numpy", "-v")


def test_a_profiler_is_a_file_and_a_row(checkout):
    program = """
TOOL = "tiny"


def why_not():
    return "tiny: it counts nothing"


def count(case, counters, environment, timeout_s):
    raise NotImplementedError
"""
    checkout.write("bench_run/profilers/tiny.py", program)
    table = "bench_run/profilers/table.py"
    row = "        Profiler(tiny.TOOL, tiny.why_not, tiny.count),\n"
    checkout.add(table, row, before="        Profiler(perf.TOOL")
    imported = "from bench_run.profilers import tiny\n"
    checkout.add(table, imported, before="from bench_run.profilers.base import Profiler\n")
    engine = "bench_run/engines/numpy_engine/__init__.py"
    checkout.add(engine, ', profiler="tiny"', after="ModuleAbilities(workspace=workspace")
    program = "from bench_run.profilers.table import profiler_of as p; print(p('numpy').why_not())"
    assert "tiny: it counts nothing\n" == checkout.run("-c", program)


def test_a_report_of_a_run_is_a_file_a_row_and_a_flag(checkout):
    program = "def names(document):\n    return ''.join(f'{c.id}\\n' for c in document.cases)\n"
    checkout.write("bench_run/report/names.py", program)
    formats = "bench_run/report/formats.py"
    checkout.add(formats, '    "names": names,\n', after='    "markdown": markdown,\n')
    imported = "from bench_run.report.names import names\n"
    checkout.add(
        formats,
        imported,
        before="\nif TYPE_CHECKING:\n    from collections.abc import Callable, Mapping",
    )
    flag = """    names: str | None = setting(
        None, flag="--names FILE", section=FILES, help="names of the cases", kind="output file"
    )
"""
    checkout.add("bench_run/settings.py", flag, before="    markdown: str | None = setting(\n")
    checkout.run("bench_run", *RELU, "--engine", "numpy", "--names", "n.txt")
    assert (checkout.folder / "n.txt").read_text() == "relu_4x8_float on numpy\n"


def test_a_report_of_a_comparison_is_a_file_and_a_row(checkout):
    program = "def render(report, view):\n    return f'one {type(report).__name__}\\n'\n"
    checkout.write("bench_compare/report/size.py", program)
    row = '    "size": "bench_compare.report.size:render",\n'
    checkout.add("bench_compare/report/__init__.py", row, before='    "html": ')
    names = '"html", "figures")\n"""Formats with a flag'
    checkout.add("bench_compare/options.py", '"size", ', before=names)
    line = "  --size FILE           number of rows\n"
    usage = "bench_compare/commands/compare.py"
    checkout.add(usage, line, before="  --markdown FILE       for a pull request\n")
    for name in ("a.json", "b.json"):
        checkout.run("bench_run", *RELU, "--engine", "numpy", "-o", name)
    words = ("--fail-on", "none", "--allow-no-answer", "--size", "-")
    assert checkout.run("bench_compare", "a.json", "b.json", *words).endswith("one Report\n")


def test_a_setting_is_a_row_and_its_place_of_use(checkout):
    row = """    motto: str | None = setting(
        None, flag="--motto TEXT", section="The run", help="printed at the end"
    )
"""
    checkout.add("bench_run/settings.py", row, before="    markdown: str | None = setting(\n")
    run = "bench_run/commands/run.py"
    use = "    missing += filter(None, [options.motto])\n"
    checkout.add(run, use, before="    missed = not_validated(document)\n", named=False)
    checkout.write("run.toml", 'motto = "from a file"\n')
    assert "--motto TEXT" in checkout.run("bench_run", "help", "all")
    for words in (("--motto", "from a flag"), ("--config", "run.toml")):
        program = (
            "from bench_run.cli import main; import contextlib, io; said = io.StringIO()\n"
            "with contextlib.redirect_stderr(said):\n"
            f"    main({[*RELU, '--engine', 'numpy', *words]!r})\n"
            "print(said.getvalue())"
        )
        assert "from a f" in checkout.run("-c", program)


@pytest.mark.parametrize("tool", ["bench_run", "bench_compare"])
def test_a_command_is_a_file_and_a_row(checkout, tool):
    result = {"bench_run": "CommandOutput", "bench_compare": "CommandResult"}[tool]
    more = {"bench_run": "", "bench_compare": ", width, terminal"}[tool]
    room = {"bench_run": "bench_run.commands", "bench_compare": "bench_compare.commands.outcome"}
    checkout.write(
        f"{tool}/commands/hello.py",
        f'''
from {room[tool]} import {result}

USAGE = """Greet.

Usage:
  {tool.replace("_", "-")} hello NAME
"""


def answer(arguments{more}):
    return {result}(f"hello {{arguments['NAME']}}\\n")
''',
    )
    row = f'    "hello": "{tool}.commands.hello",\n'
    home, head = {
        "bench_run": ("commands/__init__.py", "COMMANDS = {\n"),
        "bench_compare": ("cli.py", "COMMANDS: dict[str, str] = {\n"),
    }[tool]
    checkout.add(f"{tool}/{home}", row, after=head)
    assert "hello you" in checkout.run(tool, "hello", "you")


def test_a_document_version_is_five_places(checkout):
    versions = checkout.folder / "schema" / "bench_schema" / "versions"
    text = (versions / "v3.json").read_text()
    number = '"schema_version": {"const": 3,'
    assert text.count(number) == 1
    (versions / "v4.json").write_text(text.replace(number, number.replace("3", "4")))
    document = "schema/bench_schema/document.py"
    old = (checkout.folder / document).read_text()
    checkout.write(document, old.replace("SCHEMA_VERSION = 3\n", "SCHEMA_VERSION = 4\n"))
    step = ", 3: lambda tree: tree"
    checkout.add("schema/bench_schema/upgrade.py", step, after="1: to_version_2, 2: to_version_3")
    stored = ROOT / "tests" / "data" / "documents" / "v3.json"
    program = f"from bench_schema.files import read; print(read({str(stored)!r}).schema_version)"
    assert "4\n" == checkout.run("-c", program)
    checkout.run("bench_run", *RELU, "--engine", "numpy", "-o", "a.json")
    assert '"schema_version":4' in (checkout.folder / "a.json").read_text().replace(" ", "")[:40]


def test_every_walk_of_the_page_is_walked_here():
    titles = PAGE.partition("## Adding things")[2].partition("## Habits")[0].count("\n### ")
    walks = [name for name in globals() if name.startswith("test_a")]
    assert titles == len(walks) - 1  # a report is one for each command
