"""Engine ids: hipDNN's hash, and every way to write one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.engines.hipdnn.choosing import (
    EngineChoice,
    engine_id,
    parse_choice,
    signed,
)
from bench_run.errors import UsageError

PUBLISHED = {
    "MIOPEN_ENGINE": (1563989756945604898, 0x15B46865C717A122),
    "MIOPEN_ENGINE_DETERMINISTIC": (-6748551569128940061, 0xA258541A6DAA1DE3),
    "HIPBLASLT_ENGINE": (8768140637164053035, 0x79AEB17432D4A22B),
    "HIP_MLOPS_ENGINE": (-2478880896520848391, 0xDD993EF5525F7BF9),
    "ASM_SDPA_ENGINE": (4714091817493728420, 0x416BD1881C4A0CA4),
    "FUSILLI_ENGINE": (-3193037706610614382, 0xD3B00D1F8F0BDF92),
    "MIOPEN_PLUGIN": (7184922747206658531, 0x63B5F92BD5E069E3),
    "": (0, 0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_names_have_the_published_ids(name):
    value, bits = PUBLISHED[name]
    assert (value, value) == (engine_id(name), signed(bits))


@pytest.mark.parametrize(
    "text",
    [
        "MIOPEN_ENGINE_DETERMINISTIC",
        "-6748551569128940061",
        "11698192504580611555",
        "0xa258541a6daa1de3",
        "0XA258541A6DAA1DE3",
    ],
)
def test_every_spelling_of_one_engine_is_one_id(text):
    assert -6748551569128940061 == parse_choice(text).id


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("0", 0), ("0x1", 1), ("-1", -1)])
def test_small_numbers_pass_through(text, number):
    assert EngineChoice(id=number) == parse_choice(text)


def test_without_an_id_hipdnn_chooses():
    assert EngineChoice() == parse_choice(None)


def test_all_is_every_engine():
    assert parse_choice("all").every


@pytest.mark.parametrize("text", ["18446744073709551616", "-9223372036854775809", "1.5", "a b"])
def test_what_is_no_id_is_refused_with_the_forms(text):
    with pytest.raises(UsageError, match=r"64 bits|decimal or hexadecimal"):
        parse_choice(text)


@given(st.integers(-(2**63), 2**64 - 1))
def test_decimal_and_hexadecimal_agree(value):
    assert parse_choice(str(value)).id == parse_choice(hex(value % 2**64)).id == signed(value)
