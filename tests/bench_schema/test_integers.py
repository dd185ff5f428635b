import json

import numpy as np
import pytest
from bench_schema.checks import acceptor
from bench_schema.checks.acceptor import Arrays
from hypothesis import given
from hypothesis import strategies as st

LIMIT = 2**53 - 1
MANY = 1024


def read(texts, low=0, high=LIMIT):
    """The texts through one `Arrays`, as they come out in its place."""
    home = {str(number): text.encode() for number, text in enumerate(texts)}
    arrays = Arrays(low, high)
    for name in home:
        arrays.add(home, name)
    arrays.flush()
    return [home[name] for name in home]


@given(st.lists(st.lists(st.integers(0, LIMIT), max_size=9), max_size=9))
def test_short_arrays_are_read_as_json_is(lists):
    found = read([json.dumps(one) for one in lists])
    assert [one.tolist() for one in found] == lists


@pytest.mark.parametrize("digits", range(1, 13))
def test_every_digit_of_long_arrays_arrives(digits):
    random = np.random.default_rng(digits)
    lists = random.integers(10 ** (digits - 1), 10**digits, (3, MANY)).tolist()
    found = read([json.dumps(one, separators=(",", ":")) for one in lists])
    assert [one.tolist() for one in found] == lists


def test_arrays_of_several_widths_keep_to_themselves():
    texts = [f"[{','.join(['10000'] * MANY)}]", "[10000,999,1000000,10000]"]
    assert [10000, 999, 1000000, 10000] == read(texts)[1].tolist()


def test_limits_hold_for_long_arrays_of_one_width():
    text = f"[{','.join(['123'] * MANY)}]"
    assert 123 == read([text], high=123)[0][-1]
    with pytest.raises(ValueError, match="from 0 to 122"):
        read([text], high=122)


@pytest.mark.parametrize("odd", ["1.5", "1e2", "-12", '"1"', "[1]", "{ }", "nul"])
def test_one_value_that_is_no_duration_among_many_of_its_width_is_refused(odd):
    with pytest.raises(ValueError):  # noqa: PT011  NumPy has its own words for some
        read([f"[{'123,' * MANY}{odd}]"])


@pytest.mark.parametrize(("odd", "value"), [("-12", -12), (" 12", 12), ("12 ", 12)])
def test_signs_and_spaces_among_many_of_one_width_are_read(odd, value):
    found = read([f"[{'123,' * MANY}{odd}]"], low=-LIMIT)
    assert found[0].tolist() == [123] * MANY + [value]


@pytest.mark.parametrize("text", ['"1,2,3"', '{"a":1}', "123", "null"])
def test_what_is_no_array_is_refused(text):
    with pytest.raises(ValueError, match="expected an array"):
        read([text])


def test_more_numbers_than_one_block_holds_keep_their_places(monkeypatch):
    monkeypatch.setattr(acceptor, "MOST", 2 * MANY)
    lists = [[100 + number] * (MANY // 2) for number in range(9)]
    found = read([json.dumps(one, separators=(",", ":")) for one in lists])
    assert [one.tolist() for one in found] == lists
    assert not any(one.flags.writeable for one in found)
