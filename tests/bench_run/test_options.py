from __future__ import annotations

import pytest

from bench_run.errors import UsageError
from bench_run.options import Options, checked, read_options
from bench_run.options.read import config_values


def options(**flags):
    return read_options({f"--{name.replace('_', '-')}": value for name, value in flags.items()})


def test_defaults_are_the_documented_ones():
    chosen = read_options({})
    assert (chosen.warmup, chosen.iterations, chosen.rounds, chosen.seed) == (10, None, 5, 0)


def test_zero_is_a_value():
    assert options(warmup="0").warmup == 0


def test_a_percentage_and_a_share_are_the_same():
    assert options(precision="1%").precision_ratio == options(precision="0.01").precision_ratio


def test_a_flag_wins_over_the_configuration_file(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('warmup = 3\nrounds = 7\nengine = ["numpy"]\n')
    chosen = options(config=str(path), warmup="4")
    assert (chosen.warmup, chosen.rounds, chosen.engine) == (4, 7, ("numpy",))


def test_configuration_accepts_either_dash_and_tables(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('max_time = 2\ntag = {build = "7"}\nreplay = true\n')
    chosen = options(config=str(path))
    assert (chosen.max_time_s, chosen.tag, chosen.replay) == (2.0, (("build", "7"),), True)


BAD = [
    ({"warmup": "x"}, "--warmup: expected a whole number, got 'x'"),
    ({"iters": "0"}, "--iters: expected at least 1, got 0"),
    ({"iters": "1" + 20 * "0"}, f"--iters: expected at most 10000000, got {10**20}"),
    ({"rounds": "10000001"}, "--rounds: expected at most 10000000, got 10000001"),
    ({"seed": str(2**63)}, f"--seed: expected at most {2**63 - 1}, got {2**63}"),
    ({"cache": "warm"}, "--cache: no choice 'warm'; choose from hot, cold, rotate"),
    ({"tag": ["x"]}, "--tag: expected KEY=VALUE, got 'x'"),
    ({"rtol": "nan"}, "--rtol: expected a finite number of at least 0, got nan"),
    ({"precision": "200%"}, "--precision: expected a share such as 1% or 0.01, got 200%"),
    ({"a": "numpy"}, "--a and --b go together"),
    ({"a": "numpy", "b": "torch", "engine": ["numpy"]}, "give one or the other"),
    ({"iters": "3", "rounds": "5"}, "--iters 3 is less than --rounds 5"),
    ({"min_time": "3", "max_time": "2"}, "--min-time 3 is more than --max-time 2"),
    (
        {"precision": "1%", "max_rounds": "4", "rounds": "5"},
        "--max-rounds 4 is less than --rounds 5",
    ),
    ({"precision": "1%", "max_rounds": "2"}, "--max-rounds 2: an interval takes at least 3"),
    ({"max_rounds": "9"}, "--max-rounds goes with --precision"),
    ({"resume": True}, "--resume needs -o FILE"),
    ({"config": "/no/such/file.toml"}, "--config: /no/such/file.toml: No such file"),
]


def test_few_iterations_or_a_limit_of_rounds_lower_the_rounds_that_nobody_asked_for():
    assert (options(iters="3").iterations, options(iters="3").rounds) == (3, 3)
    assert options(precision="1%", max_rounds="3").rounds == 3
    assert options(iters="30").rounds == 5


@pytest.mark.parametrize(("flags", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_a_bad_flag_is_named_with_what_was_expected(flags, message):
    with pytest.raises(UsageError) as caught:
        options(**flags)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (r'output = "a\u0000b.json"', "output"),
        (r'reference-cache = "a\u0000"', "reference-cache"),
        (r'graphs = ["a\u0000.json"]', "graphs"),
        (r'op = ["relu\u0000"]', "op"),
        (r'tag = {commit = "\u0000"}', "tag"),
    ],
)
def test_a_name_with_a_nul_is_an_error_that_names_the_key(tmp_path, text, key):
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=rf"c\.toml: {key}: holds a NUL character"):
        config_values(str(path))


def test_an_unknown_configuration_key_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("warm_up = 3\n")
    with pytest.raises(UsageError, match="unknown key 'warm_up'; did you mean warmup"):
        options(config=str(path))


def test_the_python_api_refuses_what_the_command_line_refuses():
    with pytest.raises(UsageError, match="go together"):
        checked(Options(a="numpy"))
