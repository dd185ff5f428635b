from dataclasses import replace

import msgspec
import pytest

from bench_compare.errors import UsageError
from bench_compare.model import Verdict, View
from tests.bench_compare.report.shown import render


def table(comparison, view):
    return render("text", comparison, view)


@pytest.mark.parametrize("which", ["suite", "hostile_suite"])
@pytest.mark.parametrize("everything", [False, True])
def test_no_line_is_wider_than_the_terminal(which, everything, request):
    text = table(request.getfixturevalue(which), View(all=everything))
    *lines, answer = text.splitlines()
    assert answer.partition(":")[0] in ("PASS", "FAIL", "UNDECIDED")  # one line, for programs
    assert [] == [line for line in lines if len(line) > 80]


def test_bad_news_comes_before_good_news(suite):
    text = table(suite, View())
    places = [text.index(word) for word in ("sdpa_b4", "pointwise_add", "2.44× faster", "softmax")]
    assert sorted(places) == places


def test_cases_without_news_need_all(suite):
    name = "conv_fwd_n8_c64_h56_w56_k64_r3_s3"
    assert name not in table(suite, View())
    assert name in table(suite, View(all=True, width=100))


def test_colour_only_where_it_was_asked_for(suite):
    assert "\x1b" not in table(suite, View())
    assert "\x1b[31mslower\x1b[0m" in table(suite, View(color=True))


def test_hostile_names_send_nothing_to_the_terminal(hostile_suite):
    text = table(hostile_suite, View(all=True))
    assert all(line.isprintable() for line in text.split("\n"))


def test_the_filter_says_how_much_it_hides(suite):
    assert "1 of 10 cases shown that match 'sdpa'" in table(suite, View(filter="sdpa"))


def test_an_unknown_sort_names_the_choices(suite):
    with pytest.raises(UsageError, match="choose from news, ratio"):
        table(suite, View(sort="size"))


def test_an_unknown_format_names_the_choices(suite):
    with pytest.raises(UsageError, match="choose from text, markdown"):
        render("pdf", suite, View())


def test_engines_get_a_column_where_there_are_several(make):
    cases = [make.row(i, "g", Verdict.SLOWER, 1.5, engine=key) for i, key in enumerate("ab")]
    assert "engine" in table(make.comparison(cases), View())


def three_sides(make, labels):
    rows = [
        make.row(i, make.LONG + f"{i}", verdict, 1.5 if i % 2 else 0.5, other_label=label)
        for label in labels
        for i, verdict in enumerate((Verdict.FASTER, Verdict.SLOWER))
    ]
    sides = [make.Side(x, (make.Source(x, make.document(x), "bench"),), ("cudnn",)) for x in labels]
    return make.comparison(rows, others=tuple(sides))


def test_the_rows_of_a_side_stand_below_its_label(make):
    lines = table(three_sides(make, "xy"), View()).splitlines()
    first = [line.split()[0] for line in lines if line.startswith(("slower", "faster", "=="))]
    assert ["==", "slower", "faster"] * 2 == first


LABELS = ("after the update of the driver", "nightly build of the experimental branch")


def test_labels_of_several_sides_are_told_in_full(make):
    text = table(three_sides(make, LABELS), View())
    assert set(LABELS) <= {line.removeprefix("== ") for line in text.splitlines()}


def test_names_beside_several_sides_keep_most_of_their_characters(make):
    text = table(three_sides(make, LABELS), View())
    names = [line.split()[1] for line in text.splitlines() if line.startswith(("slower", "faster"))]
    assert 4 == len(names)
    assert min(map(len, names)) >= 28


@pytest.mark.parametrize("width", [40, 50, 63, 64, 72])
@pytest.mark.parametrize("which", ["suite", "hostile_suite", "three"])
def test_a_narrow_terminal_does_not_overflow(which, width, request, make):
    sides = three_sides(make, LABELS) if which == "three" else request.getfixturevalue(which)
    text = table(sides, View(width=width, all=True))
    *lines, _ = text.splitlines()
    assert [] == [line for line in lines if len(line) > width]


def test_what_changed_beside_the_numbers_is_counted(make):
    moved = make.row(1, "g", Verdict.SLOWER, 1.5)
    plan = {"engine id": "57"}
    other = replace(moved.other, cases=(replace(moved.other.cases[0], plan=plan),))
    text = table(make.comparison([replace(moved, other=other)]), View())
    assert "Of 1 changed case, the other side has another plan in 1." in text


def test_an_empty_comparison_says_why(make):
    text = table(make.comparison([], problems=("nothing compared",)), View())
    assert text.startswith("error: nothing compared\n")


def test_a_question_mark_says_what_it_stands_for(suite):
    shown = next(case for case in suite.cases if case.gate_metric and case.gate_metric.provisional)
    far = {
        name: msgspec.structs.replace(one, base_rounds=5, other_rounds=5)
        for name, one in shown.metrics.items()
    }
    elsewhere = replace(shown, metrics=far)
    text = table(replace(suite, cases=(elsewhere,), bad_news=()), View())
    assert "? provisional: another unit of hardware" in text
