"""The package as it is installed: the commands and the graphs travel in the wheel."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # builds a wheel; pip fetches the build tools


@pytest.fixture(scope="module")
def site(root, tmp_path_factory):
    """A folder into which the wheel was installed, without its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip"]
    source = tmp_path_factory.mktemp("source") / "tree"
    subprocess.run(["git", "clone", "-q", str(root), str(source)], check=True)
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", folder, source], check=True)
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    subprocess.run([*pip, "install", "-q", "--no-deps", "--target", target, wheel], check=True)
    return target


@pytest.mark.parametrize("name", ["smoke", "resnet50"])
def test_graphs_run_by_name_in_an_empty_folder(site, tmp_path, name):
    quick = ("--engine", "numpy", "--rounds", "1", "--iters", "1", "--warmup", "0")
    done = subprocess.run(
        [sys.executable, "-m", "bench_run", f"suite:{name}", *quick],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert (0, True) == (done.returncode, "validation passed" in done.stdout), done.stderr


def test_shells_find_their_completions(site):
    names = {
        path.relative_to(site / "share").as_posix() for path in (site / "share").rglob("*bench*")
    }
    assert {
        "bash-completion/completions/bench-run",
        "zsh/site-functions/_bench-compare",
        "fish/vendor_completions.d/bench-run.fish",
    } <= names


def test_the_version_of_the_wheel_answers(site, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import bench_run; print(bench_run.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert str(site) in done.stdout


def test_a_tree_without_git_names_its_commit(root, tmp_path):
    if not (root / ".git").exists():
        pytest.skip("not a clone")
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=root, capture_output=True, text=True
    ).stdout.strip()
    tree = tmp_path / "tree"
    tree.mkdir()
    archive = subprocess.Popen(["git", "archive", "HEAD"], cwd=root, stdout=subprocess.PIPE)
    subprocess.run(["tar", "x", "-C", tree], stdin=archive.stdout, check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, tree]
    subprocess.run(pip, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert f"+g{commit}" in wheel.name
