import base64
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.report.html.front import short, shortened
from bench_compare.report.html.packing import packed, planes

NUMBERS = st.lists(st.lists(st.integers(0, 2**62), max_size=20), max_size=4)


def from_planes(data, count):
    return [
        sum(data[plane * count + place] << 8 * plane for plane in range(len(data) // count))
        for place in range(count)
    ]


@given(NUMBERS)
def test_integers_come_back_from_their_bytes(rows):
    matrices = [np.array(row, np.int64) for row in rows]
    flat = [value for row in rows for value in row]
    assert flat == (from_planes(planes(matrices), len(flat)) if flat else [])


def test_small_integers_take_a_byte_each():
    assert bytes([3, 255, 0]) == planes([np.array([[3, 255, 0]])])


def test_a_block_is_three_texts_that_close_no_script():
    text = packed({"name": "</script>"}, [np.array([[1, 2]])], [np.array([1.5], np.float32)])
    told, numbers, floats = text.split(" ")
    assert b'{"name":"</script>"}' == zlib.decompress(base64.b64decode(told))
    assert bytes([1, 2]) == zlib.decompress(base64.b64decode(numbers))
    assert bytes([0, 0, 0xC0, 0x3F]) == zlib.decompress(base64.b64decode(floats))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_are_shortened_together_as_one_by_one(values):
    np.testing.assert_allclose(shortened(values), [short(value) for value in values], rtol=1e-5)


def test_what_is_unknown_or_infinite_is_shortened_to_unknown():
    assert np.isnan(shortened([None, float("inf"), float("nan")])).all()
