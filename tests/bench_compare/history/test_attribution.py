"""What differs across an event, where each document measures something else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench_compare.cli import main
from bench_compare.history.archive import Archive, ArchiveColumn
from bench_compare.history.attribution import causes
from bench_compare.history.steps.noise import Grid
from tests.bench_compare.history import make
from tests.bench_compare.history.test_builds import doc

STEP = ((1, 12, 1.1),)


def reasons(capsys, folder):
    main(["history", str(folder), "--json", "-"])
    (event,) = json.loads(capsys.readouterr().out)["events"]
    return event["causes"]


def test_a_machine_that_became_busier_is_said(tmp_path, capsys):
    folder = make.archive(tmp_path / "a", steps=STEP, others=0.05, change=(12, {"others": 0.65}))
    assert ["busier"] == [text.split()[-1] for text in reasons(capsys, folder)]


def test_a_machine_that_is_as_busy_as_before_is_no_reason(tmp_path, capsys):
    folder = make.archive(tmp_path / "a", steps=STEP, others=0.30, change=(12, {"others": 0.33}))
    assert ["nothing that the documents record differs"] == reasons(capsys, folder)


def told(name, texts):
    """The causes between the first and the second half of documents that say this of one fact."""
    count = len(texts)
    empty = np.empty((0, count))
    archive = Archive(
        metric="e2e_ns",
        builds=(),
        columns=tuple(
            ArchiveColumn(number, doc(number, facts={name: text}), "a host")
            for number, text in enumerate(texts)
        ),
        series=(),
        grid=Grid(empty, empty, np.arange(count), np.zeros(count, np.int64)),
        outcomes={},
    )
    every = list(range(count))
    return causes(archive, [0], {0: every[: count // 2]}, {0: every[count // 2 :]})


CEILING = "device 0 copy ceiling"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ((2900, 2905, 2910), f"{CEILING} -3.2 %: the machine itself changed"),
        ((2990, 3002, 3010), "nothing that the documents record differs"),
        ((3003, 2700, 3001), "nothing that the documents record differs"),
    ],
)
def test_ceilings_that_scatter_are_a_reason_where_the_sides_do_not_overlap(after, said):
    assert [said] == told(CEILING, [f"{value} GB/s" for value in (2998, 3000, 3004, *after)])


def test_a_ceiling_of_nothing_is_no_reason():
    assert ["nothing that the documents record differs"] == told(
        CEILING, ["0 GB/s"] * 3 + ["3000 GB/s"] * 3
    )


def test_what_was_not_measured_has_to_be_the_same_on_each_side():
    assert ["driver: 550.1 → 550.2"] == told("driver", ["550.1"] * 3 + ["550.2"] * 3)
    assert ["nothing that the documents record differs"] == told("driver", ["1", "2", "1", "2"])
