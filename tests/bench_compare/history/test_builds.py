"""Documents to builds: copies, names, the order of a repository."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from bench_compare.errors import InputError
from bench_compare.history.builds import Doc, builds_of, without_copies
from bench_compare.history.digest import Digest

DAY = "2026-01-{:02}T03:00:00+00:00"


def doc(number, path=None, **changes):
    plain = Digest(
        run_id=f"run-{number}",
        label=None,
        started=DAY.format(number),
        complete=True,
        parts=(),
        tags={},
        graphs_commit=None,
        command=(),
        facts={},
        cases=(),
    )
    return Doc(path or f"d{number}.json", replace(plain, **changes))


@pytest.fixture
def repo(tmp_path):
    """A repository of three commits, and their hashes from the first on."""

    def git(*words):
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", "-C", tmp_path, *name, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "-q")
    hashes = []
    for number in range(3):
        git("commit", "-q", "--allow-empty", "-m", f"commit {number}")
        hashes.append(git("rev-parse", "HEAD"))
    return tmp_path, hashes


def test_builds_run_in_the_order_of_the_repository_not_of_their_starts(repo):
    folder, (first, second, third) = repo
    docs = [doc(1, graphs_commit=third), doc(2, graphs_commit=first), doc(3, graphs_commit=second)]
    builds, _ = builds_of(docs, "commit", folder)
    assert [first[:10], second[:10], third[:10]] == [build.name for build in builds]


def test_shortened_commits_of_a_tag_are_known(repo):
    folder, (first, second, _) = repo
    docs = [doc(1, tags={"sha": second[:8]}), doc(2, tags={"sha": first[:8]})]
    builds, remarks = builds_of(docs, "tag:sha", folder)
    assert ([first[:8], second[:8]], []) == ([build.name for build in builds], remarks)


def test_a_build_that_the_repository_does_not_know_is_placed_by_its_start(repo):
    folder, (first, second, _) = repo
    docs = [
        doc(1, graphs_commit=first),
        doc(2, graphs_commit="local-change"),
        doc(3, graphs_commit=second),
    ]
    builds, remarks = builds_of(docs, "commit", folder)
    assert ["local-change"] == [build.name for build in builds][1:2]
    assert "does not know local-change" in remarks[0]


def test_a_folder_that_is_no_repository_is_an_error(tmp_path):
    with pytest.raises(InputError, match="not a git repository"):
        builds_of([doc(1, graphs_commit="a" * 40)], "commit", tmp_path)


def test_of_copies_the_fullest_counts():
    docs = [doc(1, complete=False), doc(1, path="b.json"), doc(1, path="a.json", cases=(None,) * 5)]
    kept, remarks = without_copies(docs)
    assert (["a.json"], 2) == ([one.path for one in kept], len(remarks))


def test_documents_that_name_no_build_are_left_out():
    builds, remarks = builds_of([doc(1, label="x"), doc(2)], "label", None)
    assert (1, "d2.json: left out, it has no label") == (len(builds), remarks[0])


def test_builds_of_one_name_are_told_apart():
    same = DAY.format(1)
    builds, _ = builds_of([doc(1, started=same), doc(2, started=same)], "started", None)
    assert ["2026-01-01 03:00:00 #1", "2026-01-01 03:00:00 #2"] == [build.name for build in builds]


def test_starts_in_other_time_zones_are_ordered_by_their_instants():
    late = doc(1, started="2026-01-01T03:00:00-05:00")
    early = doc(2, started="2026-01-01T06:00:00Z")
    builds, _ = builds_of([late, early], "started", None)
    assert ["run-2", "run-1"] == [build.documents[0].held.run_id for build in builds]
