"""Attention over padded, packed and paged sequences, sinks, fp8 factors, refusals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from bench_run.errors import UnsupportedGraphError

FORWARD, BACKWARD = "SdpaAttributes", "SdpaBackwardAttributes"


@pytest.fixture(scope="module")
def attend(run_node):
    """Dense attention of one sequence: [H, Sq, D] → ([H, Sq, Dv], [H, Sq])."""

    def run(q, k, v, **attributes):
        inputs = {"q": q[None], "k": k[None], "v": v[None]}
        rows = (1, *q.shape[:2])
        outputs = {"o": (*rows, v.shape[2]), "stats": rows}
        got = run_node(FORWARD, inputs, outputs, **attributes)
        return got["o"][0], got["stats"][0]

    return run


def lengths(*values):
    return np.array(values, np.int32)


@pytest.mark.parametrize("corner", ["top_left", "bottom_right"])
def test_padded_sequences_are_attended_by_themselves(run_node, attend, normal, corner):
    q, k, v = (normal(3, 2, n, 4, seed=i) for i, n in enumerate((5, 6, 6)))
    k[1, :, 2:] = v[1, :, 2:] = np.nan
    rows, columns = (5, 3, 0), (6, 2, 4)
    inputs = {"q": q, "k": k, "v": v}
    inputs |= {"seq_len_q": lengths(*rows), "seq_len_kv": lengths(*columns)}
    attributes = {"right_bound": 0, "diagonal_alignment": corner}
    outputs = {"o": q.shape, "stats": (3, 2, 5, 1)}
    got = run_node(FORWARD, inputs, outputs, **attributes)
    for b, (n, m) in enumerate(zip(rows, columns, strict=True)):
        if n:
            o, stats = attend(q[b, :, :n], k[b, :, :m], v[b, :, :m], **attributes)
            np.testing.assert_allclose(got["o"][b, :, :n], o, rtol=1e-13)
            np.testing.assert_allclose(got["stats"][b, :, :n, 0], stats, rtol=1e-13)
        assert (got["o"][b, :, n:] == 0).all()
        assert np.isneginf(got["stats"][b, :, n:]).all()


def test_padded_gradients_are_zero_past_the_lengths(run_node, normal):
    q, k, v, do = (normal(1, 1, 4, 2, seed=i) for i in range(4))
    seq = {"seq_len_q": lengths(3), "seq_len_kv": lengths(2)}
    ports = {"q": q, "k": k, "v": v, **seq}
    forward = run_node(FORWARD, ports, {"o": q.shape, "stats": (1, 1, 4)})
    outputs = dict.fromkeys(("dq", "dk", "dv"), q.shape)
    got = run_node(BACKWARD, {**ports, **forward, "do": do}, outputs)
    cut = {"q": q[:, :, :3], "k": k[:, :, :2], "v": v[:, :, :2]}
    inner = {"o": (1, 1, 3, 2), "stats": (1, 1, 3)}
    short = run_node(FORWARD, cut, inner)
    shapes = {f"d{port}": array.shape for port, array in cut.items()}
    expected = run_node(BACKWARD, {**cut, **short, "do": do[:, :, :3]}, shapes)
    for port, value in expected.items():
        np.testing.assert_allclose(got[port][:, :, : value.shape[2]], value, rtol=1e-13)
        assert (got[port][:, :, value.shape[2] :] == 0).all()


def paged(normal):
    """Two sequences of 5 and 3 keys in pages of 2: pages 4 0 2 and 3 1."""
    k, v = normal(5, 2, 2, 4), normal(5, 2, 2, 3, seed=1)
    table = np.array([[4, 0, 2], [3, 1, 99]], np.int32)
    keys = [np.concatenate([k[p] for p in pages], 1) for pages in ((4, 0, 2), (3, 1))]
    values = [np.concatenate([v[p] for p in pages], 1) for pages in ((4, 0, 2), (3, 1))]
    inputs = {"k": k, "v": v, "page_table_k": table, "page_table_v": table}
    return inputs | {"seq_len_kv": lengths(5, 3)}, keys, values


@pytest.mark.parametrize("packed", [True, False])
def test_paged_keys_are_joined_in_the_order_of_the_table(run_node, attend, normal, packed):
    inputs, keys, values = paged(normal)
    q = normal(1, 4, 7, 4, seed=2) if packed else normal(2, 4, 4, 4, seed=2)
    rows = (4, 2)
    inputs |= {"q": q, "seq_len_q": lengths(*rows)}
    attributes = {"left_bound": 1, "right_bound": 0, "diagonal_alignment": "bottom_right"}
    o = run_node(FORWARD, inputs, {"o": (*q.shape[:3], 3)}, max_seq_len_kv=6, **attributes)["o"]
    starts = (0, 4) if packed else (0, 0)
    for s, (first, n, m) in enumerate(zip(starts, rows, (5, 3), strict=True)):
        at = (0 if packed else s, slice(None), slice(first, first + n))
        expected, _ = attend(q[at], keys[s][:, :m], values[s][:, :m], **attributes)
        np.testing.assert_allclose(o[at], expected, rtol=1e-13)
    assert (o[-1, :, 6:] == 0).all()


def test_a_sink_takes_its_share_of_the_weights(run_node):
    q = k = np.zeros((1, 2, 1, 1))
    v = np.ones((1, 2, 1, 1))
    inputs = {"q": q, "k": k, "v": v, "sink_token": np.log([1.0, 3.0])}
    ports = dict.fromkeys(("stats", "max", "sum_exp"), (1, 2, 1))
    got = run_node(FORWARD, inputs, {"o": q.shape, **ports})
    np.testing.assert_allclose(got["o"].reshape(-1), [1 / 2, 1 / 4])
    np.testing.assert_allclose(got["stats"].reshape(-1), np.log([2, 4]))
    np.testing.assert_allclose(got["max"].reshape(-1), np.log([1, 3]))
    np.testing.assert_allclose(got["sum_exp"].reshape(-1), [2, 4 / 3])


def test_a_row_that_sees_no_key_gives_zero_and_minus_infinity(attend, normal):
    q, k, v = (normal(1, n, 2, seed=n) for n in (3, 1, 1))
    o, stats = attend(q, k, v, right_bound=0, diagonal_alignment="bottom_right")
    assert (o[0, :2] == 0).all()
    assert np.isneginf(stats[0, :2]).all()
    np.testing.assert_allclose(o[0, 2], v[0, 0])


def test_spellings_of_one_mask_agree(attend, normal):
    q, k, v = normal(1, 4, 2), normal(1, 5, 2, seed=1), normal(1, 5, 2, seed=2)
    same = (
        ({"causal_mask": True}, {"left_bound": -1, "right_bound": 0}),
        (
            {"causal_mask_bottom_right": True},
            {"right_bound": 0, "diagonal_alignment": "bottom_right"},
        ),
    )
    for one, other in same:
        np.testing.assert_array_equal(attend(q, k, v, **one)[0], attend(q, k, v, **other)[0])


def test_fp8_factors_multiply_scores_and_output(run_node, normal):
    kind = ml_dtypes.float8_e4m3fn
    q, k, v = (normal(2, 4, 3, 2, seed=i).astype(kind) for i in range(3))
    per_head = np.array([0.5, 2.0, 0.25, 4.0], np.float32).reshape(2, 2, 1, 1)
    factors = {"descale_q": np.array([2.0]), "descale_k": per_head, "descale_v": np.array([3.0])}
    got = run_node(FORWARD, {"q": q, "k": k, "v": v, **factors}, {"o": q.shape})["o"]
    wide = {p: a.astype(float) for p, a in (("q", q), ("k", k), ("v", v))}
    wide["k"] *= np.repeat(per_head, 2, axis=1)
    wide |= {"q": 2 * wide["q"], "v": 3 * wide["v"]}
    expected = run_node(FORWARD, wide, {"o": q.shape})["o"]
    np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_scaled_outputs_and_their_maxima(run_node, normal):
    q, k, v = (normal(1, 1, 3, 2, seed=i) for i in range(3))
    plain = run_node(FORWARD, {"q": q, "k": k, "v": v}, {"o": q.shape})["o"]
    inputs = {"q": q, "k": k, "v": v, "scale_o": np.array([4.0])}
    outputs = {"o": q.shape, "amax_s": (1,), "amax_o": (1,)}
    got = run_node(FORWARD, inputs, outputs)
    np.testing.assert_allclose(got["o"], 4 * plain)
    assert got["amax_o"].item() == np.abs(plain).max()
    assert 1 / 3 <= got["amax_s"].item() <= 1


def test_the_scale_tensor_stands_before_the_attribute(run_node, normal):
    q, k, v = (normal(1, 1, 3, 2, seed=i) for i in range(3))
    inputs = {"q": q, "k": k, "v": v}
    scaled = run_node(
        FORWARD, {**inputs, "scale": np.array([0.3])}, {"o": q.shape}, attn_scale_value=9.0
    )
    other = run_node(FORWARD, inputs, {"o": q.shape}, attn_scale_value=0.3)
    np.testing.assert_array_equal(scaled["o"], other["o"])


REFUSED = (
    ({"alibi_mask": True}, {}, "slopes"),
    ({"dropout_probability": 0.1}, {}, "dropout"),
    ({}, {"dropout_mask": np.ones((1, 1, 2, 2))}, "dropout"),
    ({}, {"block_mask": np.ones((1, 1, 2, 2), np.uint8)}, "block_mask"),
    ({"padding_mask": True}, {}, "seq_len"),
    ({"causal_mask": True, "right_bound": 2}, {}, "contradict"),
    ({"causal_mask": True, "diagonal_alignment": "bottom_right"}, {}, "bottom-right"),
    ({"left_bound": -2}, {}, "left_bound"),
    ({}, {"seq_len_kv": lengths(0, 2)}, "2 entries for 1"),
    ({}, {"seq_len_kv": lengths(3)}, "outside of 0 … 2"),
    ({}, {"attn_mask": np.ones((3, 2))}, "broadcast"),
    ({}, {"attn_mask": np.ones((2, 2), bool)}, "float"),
    ({}, {"page_table_k": np.zeros((1, 1), np.int32)}, "page_table_v"),
)


@pytest.mark.parametrize(("attributes", "more", "words"), REFUSED)
def test_what_has_no_certain_meaning_is_refused(run_node, attributes, more, words):
    x = np.ones((1, 1, 2, 2))
    inputs = {"q": x, "k": x, "v": x, **more}
    with pytest.raises(UnsupportedGraphError, match=words) as caught:
        run_node(FORWARD, inputs, {"o": x.shape}, **attributes)
    assert "SdpaAttributes" in str(caught.value)


PAGED_REFUSED = (
    ({"seq_len_q": lengths(9, 2)}, {}, "outside"),
    ({"seq_len_q": lengths(4, 4)}, {}, "adds up to 8"),
    ({"page_table_k": np.array([[4, 0, 5], [3, 1, 0]], np.int32)}, {}, "page_table_k"),
    ({}, {"max_seq_len_kv": 2048}, "contradict"),
    ({"attn_mask": np.ones((1, 1))}, {}, "attn_mask"),
)


@pytest.mark.parametrize(("change", "attributes", "words"), PAGED_REFUSED)
def test_pages_that_do_not_fit_are_refused(run_node, normal, change, attributes, words):
    inputs, _, _ = paged(normal)
    inputs |= {"q": normal(1, 4, 7, 4), "seq_len_q": lengths(4, 2), **change}
    with pytest.raises(UnsupportedGraphError, match=words) as caught:
        run_node(FORWARD, inputs, {"o": (1, 4, 7, 3)}, **attributes)
    assert "SdpaAttributes" in str(caught.value)


def test_a_gradient_of_a_bias_that_is_not_there_is_refused(run_node):
    x = np.ones((1, 1, 2, 2))
    inputs = dict.fromkeys(("q", "k", "v", "o", "do"), x) | {"stats": np.ones((1, 1, 2, 1))}
    outputs = dict.fromkeys(("dq", "dk", "dv", "dbias"), (1, 1, 2, 2))
    with pytest.raises(UnsupportedGraphError, match="dbias") as caught:
        run_node(BACKWARD, inputs, outputs)
    assert BACKWARD in str(caught.value)
