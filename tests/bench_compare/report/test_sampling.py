import numpy as np
from bench_schema.estimate import round_log
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.report.html.sampling import FEW, MANY, Budget, HeldSeries, budget, shares
from bench_compare.report.html.sampling import reduced as groups_of

ROUNDS = st.lists(st.lists(st.integers(1, 10**12), min_size=1, max_size=80), min_size=1, max_size=6)


def arrays(rounds):
    return [np.array(values, dtype=np.int64) for values in rounds]


def held(rounds, cuts=None, documents=None):
    samples = arrays(rounds)
    documents = tuple(documents or [len(samples)])
    return HeldSeries(samples, cuts or [0] * len(samples), documents)


def reduced(series, plan):
    """Each series as a mapping, in order."""
    found = {}
    for group in groups_of(series, plan):
        several = {"docs": list(group.documents)} if len(group.documents) > 1 else {}
        for row, member in enumerate(group.members):
            columns = {name: matrix[row] for name, matrix in group.columns.items()}
            scale = {"offset": group.offset[row], "step": group.step[row]}
            whole = {"n": group.lengths, "buckets": group.buckets}
            found[member] = {**whole, **several, **scale, **columns}
    return [found[place] for place in range(len(series))]


def bucket_edges(one):
    """First and past-the-last sample of each bucket, as the page works them out."""
    first, edges = 0, []
    for count, buckets in zip(one["n"], one["buckets"], strict=True):
        edges += [
            (first + k * count // buckets, first + (k + 1) * count // buckets)
            for k in range(buckets)
        ]
        first += count
    return edges


@given(ROUNDS)
def test_a_short_series_comes_back_within_half_a_step(rounds):
    [one] = reduced([held(rounds)], Budget(1_000))
    samples = np.concatenate(arrays(rounds))
    back = one["offset"] + one["step"] * one["raw"]
    assert np.abs(back - samples).max() <= one["step"] * 0.5 + 1e-3 * samples.max() / 1e3


@given(ROUNDS)
def test_buckets_hold_least_median_and_largest_of_their_samples(rounds):
    [one] = reduced([held(rounds)], Budget(0))
    if "raw" in one:
        return
    samples = np.concatenate(arrays(rounds))
    expected = [np.sort(samples[a:b])[[0, (b - a - 1) // 2, -1]] for a, b in bucket_edges(one)]
    shown = np.stack([one["mid"] - one["down"], one["mid"], one["mid"] + one["up"]], axis=1)
    error = np.abs(one["offset"] + one["step"] * shown - np.array(expected))
    assert error.max() <= one["step"] * 0.5 + 1e-6 * samples.max()


@given(ROUNDS)
def test_no_bucket_crosses_a_round(rounds):
    [one] = reduced([held(rounds)], Budget(0))
    ends = set(np.cumsum(one["n"]).tolist())
    assert "raw" in one or ends <= {end for _, end in bucket_edges(one)}


def test_quantiles_begin_with_the_least_and_end_with_the_largest():
    samples = np.random.default_rng(1).integers(10_000, 20_000, 5_000)
    [one] = reduced([held([samples])], Budget(300))
    ends = one["offset"] + one["step"] * np.cumsum(one["q"])[[0, -1]]
    assert np.abs(ends - [samples.min(), samples.max()]).max() <= one["step"]


def test_series_of_unlike_lengths_keep_their_order():
    series = [held([[5] * n]) for n in (3, 70, 3, 500, 70)]
    assert [3, 70, 3, 500, 70] == [sum(one["n"]) for one in reduced(series, Budget(100))]


def test_the_quantiles_rise_from_0_to_1():
    assert all(
        (np.diff(shares(n)) > 0).all() and shares(n)[[0, -1]].tolist() == [0, 1]
        for n in (FEW, MANY)
    )


def test_the_more_series_the_less_each_gets():
    sizes = [budget(count).values for count in (1, 2_000, 20_000, 200_000)]
    assert sizes == sorted(sizes, reverse=True)


def test_no_series_is_no_work():
    assert [] == reduced([], budget(0))


@given(ROUNDS, st.data())
def test_each_round_tells_the_location_of_what_counts(rounds, data):
    cuts = [data.draw(st.integers(0, len(one) - 1)) for one in rounds]
    [one] = reduced([held(rounds, cuts)], Budget(0))
    counting = [np.array(values[cut:]) for values, cut in zip(rounds, cuts, strict=True)]
    expected = np.exp([round_log(values) for values in counting])
    error = np.abs(one["offset"] + one["step"] * one["mids"] - expected)
    assert error.max() <= one["step"] * 0.5 + 1e-6 * max(expected)


def test_rounds_of_several_documents_say_whose_they_are():
    [one] = reduced([held([[5, 6]] * 5, documents=[3, 2])], Budget(0))
    assert [3, 2] == one["docs"]


def test_a_single_document_needs_no_word():
    [one] = reduced([held([[5, 6]] * 5)], Budget(0))
    assert "docs" not in one
