"""The workflows of `bench-run init ci`, played: a repository with a planted slow-down, its fix, and
noise.

Each step's shell text runs as it is written; what is replaced are GitHub's own actions (a checkout
is a clone), the installation of this tool, and GitHub's server, by one that keeps comments.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bench_run.cli import main

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the workflow needs curl")

FAST = """
import numpy as np


def relu(x, y):
    np.maximum(x, 0, out=y)
"""
SLOW = f"{FAST}    np.maximum(x, 0, out=y)\n"
WRONG = f"{FAST}    y[0] = 7\n"
NOISY = """
import random

import numpy as np

REPEATS = random.randint(1, 9)  # of this process


def relu(x, y):
    for _ in range(REPEATS):
        np.maximum(x, 0, out=y)
"""


class Comments(BaseHTTPRequestHandler):
    """Comments of one pull request, as GitHub's server keeps them."""

    def do_GET(self):
        self.answer(self.server.comments)

    def do_POST(self):
        comment = {"id": 100 + len(self.server.comments), **self.body()}
        self.server.comments.append(comment)
        self.answer(comment)

    def do_PATCH(self):
        number = int(self.path.rpartition("/")[2])
        found = next(one for one in self.server.comments if one["id"] == number)
        found.update(self.body())
        self.answer(found)

    def body(self):
        assert self.headers["Authorization"] == "Bearer secret"
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


class Repository:
    """A bare repository, and a clone that pushes to it."""

    def __init__(self, folder, shell):
        self.shell = shell
        self.folder, self.bare, self.clone = folder, folder / "bare.git", folder / "clone"
        self.git("init", "-q", "--bare", "-b", "main", str(self.bare), at=folder)
        self.git("clone", "-q", str(self.bare), str(self.clone), at=folder)
        self.git("checkout", "-q", "-b", "main")
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Comments)
        self.server.comments = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.runs = 0

    def git(self, *words, at=None):
        found = subprocess.run(
            ["git", *words], cwd=at or self.clone, capture_output=True, text=True, check=True
        )
        return found.stdout.strip()

    def commit(self, branch, **files):
        self.git("checkout", "-q", "-B", branch)
        for name, text in files.items():
            (self.clone / name.replace("__", ".")).write_text(text)
        self.git("add", "-A")
        self.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "change")
        self.git("push", "-q", "-f", "origin", branch)
        return self.git("rev-parse", "HEAD")

    def play(self, workflow, commit, event="pull_request", base=None, **env):
        """The outcome of each step by its name, and what it printed."""
        self.runs += 1
        work = self.folder / f"run{self.runs}"
        work.mkdir()
        tree = yaml.safe_load((self.clone / ".github/workflows" / workflow).read_text())
        (job,) = tree["jobs"].values()
        context = {
            "github.event.pull_request.base.sha || github.sha": base or commit,
            "github.event.pull_request.number": "5",
            "github.token": "secret",
            "github.ref": "x",
        }
        summary = work / "summary.md"
        shared = {
            **{key: str(value) for key, value in tree.get("env", {}).items()},
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": event,
            "GITHUB_REPOSITORY": "me/it",
            "GITHUB_SERVER_URL": "https://host",
            "GITHUB_RUN_ID": "9",
            "GITHUB_API_URL": f"http://127.0.0.1:{self.server.server_port}",
            "GITHUB_STEP_SUMMARY": str(summary),
            **env,
        }
        found = {}
        failed = False
        for step in job["steps"]:
            name = step.get("name", step.get("uses", ""))
            condition = step.get("if", "")
            wanted = "always()" in condition or not failed
            if "pull_request'" in condition and event != "pull_request":
                wanted = False
            if not wanted or name == "Install":
                continue
            if "uses" in step:
                self.use(step, work, commit)
                continue
            own = {
                key: re.sub(r"\$\{\{ (.+?) \}\}", lambda match: context[match[1]], str(value))
                for key, value in step.get("env", {}).items()
            }
            done = self.shell(["bash", "-e", "-c", step["run"]], work, **shared, **own)
            found[name] = (done.returncode, done.stdout + done.stderr)
            if done.returncode and not step.get("continue-on-error"):
                failed = True
        return found, summary.read_text() if summary.exists() else "", work

    def use(self, step, work, commit):
        action = step["uses"].partition("@")[0]
        if action == "actions/checkout":
            self.git("clone", "-q", str(self.bare), step["with"]["path"], at=work)
            self.git("checkout", "-q", "--detach", commit, at=work / step["with"]["path"])
        elif action == "actions/upload-pages-artifact":
            assert (work / step["with"]["path"] / "index.html").exists()


@pytest.fixture
def repository(tmp_path, monkeypatch, shell):
    made = Repository(tmp_path, shell)
    (made.clone / "kernel.py").write_text(FAST)
    monkeypatch.chdir(made.clone)
    words = ["--engine", "kernel@kernel.py", "--op", "relu: dims=256x256", "--threshold", "10%"]
    assert main(["init", "ci", *words]) == 0
    made.first = made.commit("main")
    yield made
    made.server.shutdown()


def gate(repository, kernel, **env):
    head = repository.commit("change", kernel__py=kernel)
    words = {"SAMPLING": "--rounds 4", **env}
    return repository.play("bench-gate.yml", head, base=repository.first, **words)


@pytest.mark.long
def test_the_gate_is_red_on_a_slow_down_and_green_on_its_fix_with_one_comment(repository):
    steps, summary, work = gate(repository, SLOW)
    code, said = steps["Compare"]
    assert code == 2, steps
    assert "::error::FAIL: 1 of 1 slower" in said
    assert "FAIL" in summary
    assert (work / "bench.html").stat().st_size > 100_000
    (comment,) = repository.server.comments
    assert comment["body"].startswith("<!-- bench gate -->")
    assert "FAIL: 1 of 1 slower" in comment["body"].replace("\\", "")
    assert "/actions/runs/9" in comment["body"]

    steps, summary, _ = gate(repository, f"{FAST}    # the same\n")
    code, said = steps["Compare"]
    assert code == 0, said
    assert "::notice::PASS" in said
    (comment,) = repository.server.comments
    assert "PASS" in comment["body"]
    assert "FAIL" not in comment["body"]


@pytest.mark.long
def test_the_gate_is_red_on_wrong_outputs(repository):
    steps, _, _ = gate(repository, WRONG)
    code, said = steps["Compare"]
    assert code == 2, steps
    assert "wrong" in said


@pytest.mark.long
def test_noise_is_undecided_and_never_green_by_silence(repository):
    repository.first = repository.commit("main", kernel__py=NOISY)
    for attempt in range(3):  # one interval of 95 % in twenty leaves out the truth
        steps, summary, work = gate(repository, f"{NOISY}    # {attempt}\n")
        code, said = steps["Compare"]
        if code == 1:
            break
    assert code == 1, steps
    assert "::error::UNDECIDED" in said
    assert "UNDECIDED" in summary
    assert "UNDECIDED" in repository.server.comments[0]["body"]
    words = ["--group-by", "engine", "--threshold", "10%", "--allow-no-answer", "-q"]
    allowed = repository.shell(["bench-compare", "ab.json", *words], work, GITHUB_ACTIONS="true")
    assert (allowed.returncode, allowed.stdout[:20]) == (0, "::warning::UNDECIDED")


@pytest.mark.long
def test_by_hand_the_gate_is_green_and_says_which_threshold_the_runner_can_hold(repository):
    """Also on a runner that is too noisy: the first click measures one commit against itself."""
    for sampling in ("--rounds 4", "--rounds 2 --iters 2"):
        steps, summary, _ = repository.play(
            "bench-gate.yml", repository.first, event="workflow_dispatch", SAMPLING=sampling
        )
        assert {0} == {code for code, _ in steps.values()}, steps
        assert "hreshold" in steps["Compare"][1], steps
        assert "hreshold" in summary
        assert repository.server.comments == []


@pytest.mark.long
def test_the_gate_measures_by_its_own_threshold_in_ten_rounds_at_most(repository):
    head = repository.commit("change", kernel__py=f"{FAST}    # the same\n")
    _, summary, work = repository.play("bench-gate.yml", head, base=repository.first)
    settings = json.loads((work / "ab.json").read_bytes())["run"]["settings"]
    assert (settings["threshold_ratio"], settings["max_rounds"]) == (0.1, 10)
    assert "rounds ended by a threshold" not in summary


@pytest.mark.slow
def test_a_kernel_that_the_base_lacks_is_measured_alone(repository):
    repository.git("rm", "-q", "kernel.py")
    bare = repository.commit("empty")
    head = repository.commit("change", kernel__py=FAST)
    steps, _, _ = repository.play("bench-gate.yml", head, base=bare)
    assert steps["Compare"][0] == 0, steps
    assert "1 case" in steps["Compare"][1]


@pytest.mark.long
def test_the_nightly_workflow_keeps_an_archive_and_makes_pages(repository):
    for number in range(2):
        steps, _, work = repository.play("bench-nightly.yml", repository.first, event="schedule")
        assert all(code == 0 for code, _ in steps.values()), steps
        files = repository.git("ls-tree", "--name-only", "bench-archive", at=repository.bare)
        assert len(files.splitlines()) == number + 1, files
    index = (work / "site/index.html").read_text()
    assert repository.first[:10] in index


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "kernel@nope.py", "--op", "relu"], "nope.py: not there"),
        (["--engine", "kernel@../k.py", "--op", "relu"], "a path inside the repository"),
        (["--engine", "torch"], "on which cases?"),
        (["--op", "relu"], "what is measured? --engine kernel@FILE.py"),
        (["--engine", "torch", "--op", "rleu"], "did you mean relu"),
        (["--engine", "torch", "graphz/"], "graphz"),
        (["--engine", "nonsense", "--op", "relu"], "nonsense"),
        (["--engine", "torch", "--op", "relu"], "bench-gate.yml: is there already; --force"),
    ],
)
def test_a_wrong_word_says_what_to_type(words, said, repository, capsys):
    assert main(["init", "ci", *words]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "build", "spec"),
    [
        (
            ["--engine", "torch", "--op", "relu"],
            "(cd base && python -m venv .bench-venv",
            "torch+python=head/.bench-venv/bin/python",
        ),
        (
            ["--engine", "hipdnn:2@build/plugins", "--build", "make", "--op", "relu"],
            "(cd base && make)",
            "hipdnn:2@head/build/plugins",
        ),
    ],
)
def test_packages_and_plugins_are_built_on_both_sides(words, build, spec, tmp_path):
    assert main(["init", "ci", *words, "-o", str(tmp_path)]) == 0
    text = (tmp_path / ".github/workflows/bench-gate.yml").read_text()
    steps = yaml.safe_load(text)["jobs"]["gate"]["steps"]
    runs = {step.get("name"): step.get("run", "") for step in steps}
    assert build in runs["Build"]
    assert f'--b "{spec}"' in runs["Measure in pairs"]
    assert "@@" not in text
