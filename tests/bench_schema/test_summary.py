"""Statistics of one series, against NumPy and SciPy, and the warm-up cut."""

import numpy as np
import pytest
from bench_schema.document import Device, Summary, Work
from bench_schema.estimate import WarmupCut, binomial_rank, two_sided, warmup_cut
from bench_schema.summary import achieved, summarize
from hypothesis import given
from hypothesis import strategies as st

SAMPLES = st.lists(st.integers(1, 10**12), min_size=1, max_size=60)


def ints(values):
    return np.array(values, dtype=np.int64)


@given(st.lists(SAMPLES, min_size=1, max_size=5))
def test_every_statistic_is_what_numpy_says(rounds):
    pooled = np.concatenate([ints(samples) for samples in rounds]).astype(float)
    found = summarize([ints(samples) for samples in rounds], [0] * len(rounds))
    names = {"p5": 5, "median": 50, "p90": 90, "p95": 95, "p99": 99}
    assert found.count == len(pooled)
    assert (found.min, found.max) == (pooled.min(), pooled.max())
    assert found.mean == pytest.approx(pooled.mean())
    for name, percent in names.items():
        assert getattr(found, name) == pytest.approx(np.percentile(pooled, percent))
    assert found.mad == pytest.approx(np.median(abs(pooled - np.median(pooled))))
    if len(pooled) > 1:
        assert found.std == pytest.approx(np.std(pooled, ddof=1), rel=1e-9, abs=1e-6)


def test_a_single_sample_has_neither_spread_nor_interval():
    found = summarize([ints([7])], [0])
    assert (found.std, found.median_ci_low, found.median_ci_high) == (None, None, None)
    assert (found.mean, found.p5, found.p99, found.mad) == (7, 7, 7, 0)


def test_warm_up_is_left_out():
    found = summarize([ints([900, 10, 12]), ints([800, 700, 14])], [1, 2])
    assert (found.count, found.max) == (3, 14)


def test_a_round_whose_samples_are_all_cut_does_not_count():
    found = summarize([ints([1, 2]), ints([5, 6])], [2, 0])
    assert found.count == 2


def test_nothing_to_summarise_is_an_error():
    with pytest.raises(ValueError, match="no samples"):
        summarize([ints([1])], [1])


def test_statistics_do_not_depend_on_the_order_within_a_round():
    rng = np.random.default_rng(3)
    rounds = [rng.integers(1, 10**6, 50) for _ in range(3)]
    shuffled = [rng.permutation(samples) for samples in rounds]
    assert summarize(rounds, [0] * 3) == summarize(shuffled, [0] * 3)


@pytest.mark.long
def test_the_interval_over_rounds_is_the_t_interval_of_their_log_medians():
    from scipy import stats

    rng = np.random.default_rng(5)
    rounds = [rng.integers(10**6, 2 * 10**6, 21) for _ in range(5)]
    logs = np.log([np.median(samples) for samples in rounds])
    low, high = stats.t.interval(0.95, 4, loc=logs.mean(), scale=logs.std(ddof=1) / 5**0.5)
    found = summarize(rounds, [0] * 5)
    expected = (np.exp(low), np.exp(high))
    assert (found.median_ci_low, found.median_ci_high) == pytest.approx(expected, rel=1e-6)


def test_medians_that_are_not_positive_get_a_linear_interval():
    found = summarize([ints([-5]), ints([0]), ints([5])], [0] * 3)
    assert found.median_ci_low == pytest.approx(-found.median_ci_high)


def test_equal_rounds_have_an_interval_of_no_width():
    found = summarize([ints([100, 100])] * 3, [0] * 3)
    assert (found.median_ci_low, found.median_ci_high) == pytest.approx((100, 100))


@pytest.mark.parametrize("count", [*range(1, 40), 99, 100, 1000])
def test_the_order_statistic_interval_is_the_narrowest_that_covers_95_percent(count):
    from scipy import stats

    rank = binomial_rank(count)
    tail = stats.binom(count, 0.5).cdf
    assert (rank is None) == (tail(0) > 0.025)
    if rank is not None:
        assert tail(rank) <= 0.025 < tail(rank + 1)


def test_fewer_than_six_samples_of_one_round_have_no_interval():
    assert [binomial_rank(count) is None for count in (1, 5, 6, 7)] == [True, True, False, False]


@pytest.mark.parametrize("degrees", [*range(1, 31), 31, 40, 100, 10_000])
def test_quantiles_of_students_t_are_scipys(degrees):
    from scipy import special

    assert two_sided(degrees) == pytest.approx(special.stdtrit(degrees, 0.975), rel=1e-6)


def coverage(rounds, per_round, spread):
    """Share of simulated runs whose interval holds the true median."""
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(600):
        centres = 1e6 * np.exp(rng.normal(0, spread, (rounds, 1)))
        samples = (centres * np.exp(rng.normal(0, 0.01, (rounds, per_round)))).astype(np.int64)
        found = summarize(list(samples), [0] * rounds)
        hits += found.median_ci_low <= 1e6 <= found.median_ci_high
    return hits / 600


@pytest.mark.parametrize(("rounds", "per_round", "spread"), [(5, 20, 0.01), (3, 50, 0), (1, 50, 0)])
def test_the_interval_covers_the_true_median_95_times_of_100(rounds, per_round, spread):
    assert coverage(rounds, per_round, spread) == pytest.approx(0.955, abs=0.025)


def noisy(count, seed, transient=0.0, constant=15):
    rng = np.random.default_rng(seed)
    decay = 1 + transient * np.exp(-np.arange(count) / constant)
    return (1e6 * decay * np.exp(rng.normal(0, 0.005, count))).astype(np.int64)


def share(condition, **series):
    return np.mean([condition(warmup_cut(noisy(seed=seed, **series))) for seed in range(300)])


@pytest.mark.parametrize("count", [20, 50, 100, 1000])
def test_a_warm_series_is_kept_whole(count):
    assert share(lambda warmup: warmup.cut > 0, count=count) < 0.06
    assert share(lambda warmup: warmup.not_warm, count=count) < 0.06


def test_a_warm_up_at_the_start_is_left_out():
    median = np.median([warmup_cut(noisy(300, seed, 0.3)).cut for seed in range(100)])
    assert 40 <= median <= 100
    assert share(lambda warmup: warmup.not_warm, count=300, transient=0.3) < 0.02


def test_the_bias_that_warm_up_leaves_is_small():
    """10 % at the start, time constant 15, 100 samples: 0.73 % without a cut."""
    medians = []
    for seed in range(300):
        samples = noisy(100, seed, 0.1)
        medians.append(np.median(samples[warmup_cut(samples).cut :]))
    assert np.mean(medians) / 1e6 - 1 < 0.003


def test_a_series_shorter_than_its_warm_up_is_not_warm():
    assert share(lambda warmup: warmup.not_warm, count=50, transient=0.3, constant=30) > 0.95


@pytest.mark.parametrize("samples", [[], [5], [5] * 9, [0] * 100, [-3] * 100, [7] * 100])
def test_series_that_tell_nothing_are_kept_whole(samples):
    assert warmup_cut(ints(samples)) == WarmupCut(0, False)


def test_a_cut_is_whole_batches_of_the_first_half():
    cuts = {warmup_cut(noisy(53, seed, 0.2)).cut for seed in range(50)}
    assert cuts <= {0, 5, 10, 15, 20, 25}


def summary_of(median):
    return Summary(1, median, None, *[median] * 7, 0, None, None)


DEVICE = Device(0, "x", None, None, None, None, None, None, None, None, 2000.0, {"half": 500.0})


def test_rates_are_work_over_the_median_of_the_main_series():
    work = Work(flops=4_000_000_000, moved_bytes=2_000_000, intensity=2000.0)
    found = achieved(
        work, {"e2e_ns": summary_of(5e4), "device_ns": summary_of(2e4)}, DEVICE, "half"
    )
    assert (found.series, found.tflops, found.gbps) == ("device_ns", 200.0, 100.0)
    assert found.ceiling_share == pytest.approx(200 / 500)


def test_a_graph_of_low_intensity_is_held_against_the_bandwidth():
    work = Work(flops=1_000_000, moved_bytes=2_000_000, intensity=0.5)
    found = achieved(work, {"device_ns": summary_of(2000.0)}, DEVICE, "half")
    assert found.ceiling_share == pytest.approx(1000 / 2000)


def test_a_graph_without_arithmetic_is_held_against_the_bandwidth():
    found = achieved(Work(0, 10**6, 0.0), {"device_ns": summary_of(1000.0)}, DEVICE, "int8")
    assert found.ceiling_share == pytest.approx(0.5)


@pytest.mark.parametrize("work", [Work(None, 9, None), Work(9, None, None), Work(None, None, None)])
def test_unknown_work_gives_unknown_rates(work):
    found = achieved(work, {"e2e_ns": summary_of(10.0)}, DEVICE, "half")
    assert (found.tflops is None) == (work.flops is None)
    assert (found.gbps is None) == (work.moved_bytes is None)
    assert found.ceiling_share is None


def test_there_are_no_rates_without_samples_or_time():
    assert achieved(Work(1, 1, 1.0), {}, DEVICE, "half") is None
    assert achieved(Work(1, 1, 1.0), {"e2e_ns": summary_of(0.0)}, DEVICE, "half") is None
