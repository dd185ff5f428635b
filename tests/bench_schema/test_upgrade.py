"""Old documents go up one pure step at a time; the future is refused."""

import pytest
from bench_schema.document import SCHEMA_VERSION
from bench_schema.errors import FutureVersionError
from bench_schema.upgrade import STEPS, upgrade, version_of


def rename(tree):
    """Version 0 called the graphs tests."""
    return {**tree, "graphs": tree["tests"]}


def count(tree):
    """Version 2 knows how many there are."""
    return {**tree, "count": len(tree["graphs"])}


STEPS_OF_A_STORY = {0: rename, 1: count}


def test_steps_are_taken_one_after_the_other():
    old = {"schema_version": 0, "tests": ["a", "b"]}
    new = upgrade(old, 0, target=2, steps=STEPS_OF_A_STORY)
    assert (new["schema_version"], new["count"]) == (2, 2)


def test_a_document_starts_at_its_own_version():
    new = upgrade({"schema_version": 1, "graphs": []}, 1, target=2, steps=STEPS_OF_A_STORY)
    assert new == {"schema_version": 2, "graphs": [], "count": 0}


def test_an_upgrade_leaves_the_old_tree_alone():
    old = {"schema_version": 0, "tests": []}
    upgrade(old, 0, target=2, steps=STEPS_OF_A_STORY)
    assert old == {"schema_version": 0, "tests": []}


def test_the_present_version_needs_no_step():
    tree = {"schema_version": SCHEMA_VERSION}
    assert upgrade(tree, SCHEMA_VERSION) is tree


def test_there_is_a_step_for_every_version_before_the_present():
    assert set(STEPS) == set(range(1, SCHEMA_VERSION))


def test_the_future_is_refused_with_both_versions_and_a_way_out():
    sentence = r"^a\.json: follows version 9 of the schema, this tool knows up to 3: update it"
    with pytest.raises(FutureVersionError, match=sentence):
        version_of({"schema_version": 9}, "a.json", known=3)
