import pytest

from bench_run.errors import UsageError
from bench_run.graph.model import Tensor
from bench_run.tensors.seeded.init_plan import Init, parse_init


def tensor(uid=4, name="x"):
    return Tensor(uid, name, "float", (2,), (1,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uniform", Init("uniform", -1, 1)),
        ("uniform:0:2.5", Init("uniform", 0, 2.5)),
        ("normal", Init("normal", 0, 1)),
        ("normal:1:0.5", Init("normal", 1, 0.5)),
        ("integers", Init("integers", -8, 8)),
        ("integers:-2:3", Init("integers", -2, 3)),
        ("constant:0", Init("constant", 0)),
        ("file:/a:b=normal.npy", Init("file", path="/a:b=normal.npy")),
    ],
)
def test_a_distribution_without_a_tensor_is_the_default(text, expected):
    assert parse_init([text]).default == expected


@pytest.mark.parametrize("text", ["x=constant:2", "4=constant:2"])
def test_a_tensor_is_named_by_name_or_uid(text):
    assert parse_init([text]).named(tensor()) == Init("constant", 2)


def test_a_name_may_hold_the_signs_of_the_grammar():
    plan = parse_init(["conv::X=1=uniform:-2:2"])
    assert plan.named(tensor(name="conv::X=1")) == Init("uniform", -2, 2)


def test_a_tensor_that_is_not_named_has_no_distribution_of_its_own():
    assert parse_init(["uniform", "y=normal"]).named(tensor()) is None


def test_the_later_of_two_texts_wins():
    assert parse_init(["normal", "uniform"]).default == Init("uniform", -1, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gaussian", "no distribution in 'gaussian'"),
        ("x=", "no distribution"),
        ("uniform:1", r"expected uniform\[:LOW:HIGH\]"),
        ("uniform:2:1", "LOW below HIGH"),
        ("uniform:0:inf", "finite"),
        ("integers:0:1.5", "whole numbers"),
        ("normal:0:0", "standard deviation above 0"),
        ("constant", "expected constant:VALUE"),
        ("constant:one", "are not numbers"),
        ("file", "names no file"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(text, words):
    with pytest.raises(UsageError, match=words):
        parse_init([text])
