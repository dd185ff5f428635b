"""Bad news that is hidden among good news never passes: worlds of documents, drawn at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench_schema.files import save

from bench_compare.cli import main
from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import conclude
from bench_compare.errors import InputError
from bench_compare.input.sides import Grouping, group, refuse_twice
from bench_compare.model import Source
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, engine, machine, side, validation
from tests.support import examples


def rounds_of(random, factors, spread=0.004, level_ns=1e6, samples=9):
    """Samples of a case, a row for each round."""
    levels = level_ns * np.asarray(factors)[:, None]
    levels = levels * np.exp(random.normal(0, spread, levels.shape))
    return np.rint(levels * np.exp(random.normal(0, 0.003, (len(factors), samples)))).astype(int)


def documents(random, name, factors, cases=8, spread=0.004):
    """A document for each row of `factors` (documents × rounds), which are those of its first case;
    all other cases stay as they are."""
    return [
        document(
            [
                case(f"g{n}", rounds_of(random, row if n == 0 else np.ones(len(row)), spread))
                for n in range(cases)
            ],
            run_id=f"{name}{place}",
        )
        for place, row in enumerate(np.asarray(factors))
    ]


def answer(base, other):
    return conclude(compare(side("base", *base), [side("other", *other)], Policy()))


def one_slow_document(random):
    count = int(random.integers(2, 6))
    factors = np.ones((count, 5))
    factors[random.integers(count)] = np.exp(random.uniform(np.log(1.3), np.log(100)))
    return documents(random, "a", np.ones((count, 5))), documents(random, "b", factors)


def slow_in_some_of_five_rounds(random):
    factors = np.ones((1, 5))
    factors[0, random.choice(5, random.integers(1, 4), replace=False)] = 5.0
    return documents(random, "a", np.ones((1, 5))), documents(random, "b", factors)


def blind_but_for_one_case_that_is_much_faster(random):
    base = documents(random, "a", np.ones((1, 3)), spread=0.6)
    return base, documents(random, "b", np.full((1, 3), 0.1), spread=0.6)


def of_one_engine(random, key, check, run_id):
    cases = [
        case(f"g{n}", rounds_of(random, np.ones(5)), engine=key, validation=check) for n in range(4)
    ]
    return document(cases, run_id=run_id, engines=[engine(key)])


def checks_lost_with_a_renamed_engine(random):
    base = of_one_engine(random, "numpy", validation(), "a")
    return [base], [of_one_engine(random, "torch:cpu", None, "b")]


WORLDS = (
    one_slow_document,
    slow_in_some_of_five_rounds,
    blind_but_for_one_case_that_is_much_faster,
    checks_lost_with_a_renamed_engine,
)


def passed(world, draws):
    """Numbers of the draws that passed."""
    return [n for n in draws if answer(*world(np.random.default_rng(n))).word == "PASS"]


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS)
def test_bad_news_among_good_news_does_not_pass(world):
    assert [] == passed(world, range(examples(60)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("world", WORLDS)
def test_bad_news_among_good_news_does_not_pass_in_a_thousand_draws(world):
    assert [] == passed(world, range(1000))


def test_a_copy_of_a_document_under_another_id_is_no_second_document():
    random = np.random.default_rng(6)
    (made,) = documents(random, "a", np.ones((1, 5)))
    copy = replace(made, run=replace(made.run, id="another"))
    sources = [Source(path, one, "bench") for path, one in (("a.json", made), ("b.json", copy))]
    with pytest.raises(InputError, match=r"b.json: the same run as a.json"):
        refuse_twice(sources)


@pytest.mark.parametrize("together", [True, False])
def test_checks_that_another_engine_has_lost_are_bad_news_grouped_by_engine(together):
    """Both engines stand in one document, or each in one of its own."""
    random = np.random.default_rng(7)
    numpy = of_one_engine(random, "numpy", validation(), "a")
    torch = of_one_engine(random, "torch:cpu", None, "b")
    made = [numpy, torch]
    if together:
        made = [document([*numpy.cases, *torch.cases], engines=[*numpy.engines, *torch.engines])]
    sources = [Source(f"{place}.json", one, "bench") for place, one in enumerate(made)]
    found = conclude(compare(*group(sources, Grouping("engine")), Policy()))
    assert found.word == "FAIL"
    assert "4 lost" in found.sentence


@pytest.mark.parametrize("threshold_ratio", [0.3, 0.45, 0.6])
def test_a_large_threshold_on_a_quiet_machine_has_an_answer(threshold_ratio):
    random = np.random.default_rng(8)
    base, other = (documents(random, name, np.ones((1, 5))) for name in "ab")
    policy = Policy(threshold_ratio=threshold_ratio)
    found = conclude(compare(side("base", *base), [side("other", *other)], policy))
    assert found.word == "PASS"


def test_a_graph_that_one_gpu_did_not_run_is_said_and_does_not_pass(tmp_path, capsys):
    random = np.random.default_rng(9)
    for place, cases in enumerate((4, 3)):
        (made,) = documents(random, f"u{place}", np.ones((1, 5)), cases=cases)
        save(tmp_path / f"{place}.json", replace(made, machine=machine(f"host{place}")))
    code = main([*(str(tmp_path / f"{n}.json") for n in (0, 1)), "--group-by", "unit"])
    out, err = capsys.readouterr()
    assert code == 1
    assert "unit host1 did not run g3, which others ran: not compared" in out + err


def test_the_row_of_a_suspect_case_is_shown_first(tmp_path, capsys):
    random = np.random.default_rng(10)
    factors = np.ones((3, 5))
    factors[1] = 2.0
    for name, rows in (("a", np.ones((3, 5))), ("b", factors)):
        for place, made in enumerate(documents(random, name, rows)):
            labelled = replace(made, run=replace(made.run, label=name))
            save(tmp_path / f"{name}{place}.json", labelled)
    code = main(["--group-by", "label", *(str(path) for path in sorted(tmp_path.iterdir()))])
    out = capsys.readouterr().out
    assert code == 1
    assert "1 of 8 cases may be slower (1." in out
    rows = [line.split() for line in out.splitlines()]
    head = next(place for place, row in enumerate(rows) if row[:3] == ["case", "base", "other"])
    assert rows[head + 1][:2] == ["unclear", "g0"]


def with_restless_cases(random, name, spread, restless=1, cases=10):
    made = [
        case(f"g{n}", rounds_of(random, np.ones(5), spread if n < restless else 0.004))
        for n in range(cases)
    ]
    return document(made, run_id=name)


@pytest.mark.long
@pytest.mark.parametrize("spread", [0.02, 0.05, 0.1, 0.3])
@pytest.mark.parametrize(("restless", "cases"), [(1, 10), (3, 40)])
def test_restless_cases_among_calm_ones_are_not_called(spread, restless, cases):
    """Their variances are no more drawn to those of the others than theirs to them; of several that
    stand out the largest do not hide the rest."""
    random = np.random.default_rng(11)
    draws = examples(100)
    found = [
        answer(*([with_restless_cases(random, name, spread, restless, cases)] for name in "ab"))
        for _ in range(draws)
    ]
    assert [one.word for one in found].count("FAIL") <= 0.03 * draws


def test_a_repeat_stands_on_the_side_of_what_it_repeats():
    random = np.random.default_rng(12)
    (base,), (other,) = (documents(random, name, np.ones((1, 5))) for name in "ab")
    (again,), (once_more,) = (documents(random, name, np.ones((1, 5))) for name in "cd")
    repeats = [(again, other), (once_more, again)]
    again, once_more = (
        replace(one, run=replace(one.run, tags={"repeats": first.run.id})) for one, first in repeats
    )
    made = [base, other, again, once_more]
    sources = [Source(f"{place}.json", one, "bench") for place, one in enumerate(made)]
    first, others = group(sources, Grouping())
    assert ("0.json", ["1.json"]) == (first.label, [side.label for side in others])
    assert ["1.json", "2.json", "3.json"] == [source.path for source in others[0].sources]
