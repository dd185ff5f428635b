"""The acceptor accepts what jsonschema accepts, and the codec reads exactly that."""

import json
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from bench_schema import codec
from bench_schema.checks.acceptor import Compiler, accepts, load_schema
from bench_schema.checks.validator import check, validator
from bench_schema.document import SCHEMA_VERSION
from bench_schema.errors import FutureVersionError, SchemaError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import examples

JUNK = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, 1.0, -0.5, 1.5, 1e300, 2**53, 2**64, -(2**70)),
        *("", "x", "NaN", "Infinity", "completed", "device_ns", [], [None], {}, {"x": 1}, [[1]]),
    ]
)


def places(tree, path=()):
    """Paths of all values of a tree."""
    yield path
    items = list(enumerate(tree)) if isinstance(tree, list) else []
    for name, value in tree.items() if isinstance(tree, dict) else items:
        yield from places(value, (*path, name))


def mutate(tree, path, how, junk):
    """Change one value in place: put junk there, take it away, or add something beside it."""
    home = tree
    for part in path[:-1]:
        home = home[part]
    if how == "replace":
        home[path[-1]] = junk
    elif how == "remove":
        del home[path[-1]]
    elif isinstance(home, dict):
        home[junk if isinstance(junk, str) else "added"] = home[path[-1]]
    else:
        home.insert(path[-1], junk)


@pytest.fixture(scope="session")
def small_tree(stored_tree):
    """One rich and one poor case: mutations find every corner sooner."""

    def make():
        tree = stored_tree()
        tree["cases"] = [tree["cases"][0], tree["cases"][3]]
        tree["cases"][0]["rounds"] = tree["cases"][0]["rounds"][2:]
        return tree

    return make


@pytest.fixture(scope="session")
def small_places(small_tree):
    """Paths by the name of their field, so that few and frequent fields are tried alike."""
    by_field = {}
    for path in places(small_tree()):
        if path:
            field = tuple(part for part in path if isinstance(part, str))
            by_field.setdefault(field, []).append(path)
    return list(by_field.values())


def draw_mutant(data, small_tree, small_places):
    tree = small_tree()
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(data.draw(st.sampled_from(small_places))))
        how = data.draw(st.sampled_from(["replace", "remove", "add"]))
        try:
            mutate(tree, path, how, data.draw(JUNK))
        except (AttributeError, IndexError, KeyError, TypeError):
            continue  # an earlier change took the place away
    return tree


def consistent(tree):
    """What a schema cannot say: keys are unique, cases have an engine, rounds are counted once and
    cut within their samples."""
    keys = [engine["key"] for engine in tree["engines"]]
    ids = [case["id"] for case in tree["cases"]]
    unique = len(set(keys)) == len(keys) and len(set(ids)) == len(ids)
    counted = all(consistent_rounds(case["rounds"]) for case in tree["cases"])
    return unique and counted and {case["engine"] for case in tree["cases"]} <= set(keys)


def integers(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from integers(item)
    elif isinstance(tree, int) or (isinstance(tree, float) and tree.is_integer()):
        yield tree  # 1e300 is an integer to a validator


def consistent_rounds(rounds):
    indices = [one["index"] for one in rounds]
    cuts = [
        cut <= len(one["series"][name])
        for one in rounds
        for name, cut in one["cut"].items()
        if name in one["series"]
    ]
    once = len(set(indices)) == len(indices)
    return once and all(cuts) and max(indices, default=0) < codec.MOST_ROUNDS


QUICK = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_the_acceptor_accepts_only_what_jsonschema_accepts(data, small_tree, small_places):
    tree = draw_mutant(data, small_tree, small_places)
    assert accepts(SCHEMA_VERSION, "", tree) <= validator(SCHEMA_VERSION).is_valid(tree)


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_the_codec_reads_exactly_the_valid_documents(data, small_tree, small_places):
    tree = draw_mutant(data, small_tree, small_places)
    text = json.dumps(tree).encode()
    if not all(-(2**63) <= value < 2**63 for value in integers(tree)):
        # where a number is meant, and not an integer, they are read
        with suppress(SchemaError, FutureVersionError):
            codec.decode(text, "x")
    elif validator(SCHEMA_VERSION).is_valid(tree) and consistent(tree):
        assert codec.decode(text, "x").schema_version == SCHEMA_VERSION
    else:
        with pytest.raises((SchemaError, FutureVersionError), match="x: ") as caught:
            codec.decode(text, "x")
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_every_single_removal_and_null_is_judged_alike(small_tree, small_places):
    for how, path in ((how, paths[-1]) for paths in small_places for how in ("remove", "replace")):
        tree = small_tree()
        mutate(tree, path, how, None)
        accepted = accepts(SCHEMA_VERSION, "", tree)
        assert accepted == validator(SCHEMA_VERSION).is_valid(tree), (how, path)


@pytest.mark.parametrize("value", [True, "x", -1, None, 1.5, 2**53, [1]])
def test_one_wrong_sample_among_thousands_is_found_at_its_place(small_tree, value):
    tree = small_tree()
    samples = list(range(1, 5001))
    samples[500] = value
    tree["cases"][0]["rounds"][0]["series"]["e2e_ns"] = samples
    with pytest.raises(SchemaError, match=r"cases\[0\]\.rounds\[0\]\.series\.e2e_ns\[500\]: "):
        check(tree, SCHEMA_VERSION, "x")


def test_a_long_array_is_one_step(small_tree):
    tree = small_tree()
    tree["cases"][0]["rounds"][0]["series"]["e2e_ns"] = list(range(1_000_000))
    start = time.process_time()  # what others do on the machine does not count
    check(tree, SCHEMA_VERSION, "x")
    assert time.process_time() - start < 1.0  # jsonschema needs about six seconds


def test_reading_a_valid_document_does_not_load_jsonschema(stored_path):
    code = (
        "import sys; from bench_schema import codec, files; files.read(sys.argv[1]); "
        "print('jsonschema' in sys.modules, 'scipy' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(stored_path)]
    assert subprocess.check_output(command, text=True).split() == ["False", "False"]


def test_the_schema_is_itself_valid():
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(load_schema(SCHEMA_VERSION))
    assert load_schema(SCHEMA_VERSION)["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def test_every_object_of_the_schema_names_or_types_its_fields():
    def objects(schema):
        if isinstance(schema, dict):
            if schema.get("type") == "object":
                yield schema
            for value in schema.values():
                yield from objects(value)

    found = list(objects(load_schema(SCHEMA_VERSION)))
    assert len(found) > 25
    assert all(
        schema["additionalProperties"] is False or "properties" not in schema for schema in found
    )


def test_a_keyword_that_the_acceptor_does_not_know_stops_the_compilation():
    with pytest.raises(ValueError, match="no acceptor for the keywords"):
        Compiler({"type": "integer", "multipleOf": 2}).named("")


def test_an_acceptor_refuses_what_it_is_not_sure_of():
    assert accepts(SCHEMA_VERSION, "Count", 3)
    assert not accepts(SCHEMA_VERSION, "Count", 3.0)
    assert (
        validator(SCHEMA_VERSION)
        .evolve(schema=load_schema(SCHEMA_VERSION)["$defs"]["Count"])
        .is_valid(3.0)
    )
