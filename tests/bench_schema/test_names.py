from bench_schema.names import cut, safe, shortened
from hypothesis import given
from hypothesis import strategies as st


def test_the_middle_of_a_long_name_goes_first():
    assert "conv_…_bf16" == cut("conv_fwd_n8_c64_nhwc_bf16", 11)


def test_names_that_differ_only_in_the_middle_stay_apart():
    names = ["resnet50_layer1_conv_fwd_n256_bf16", "resnet50_layer2_conv_fwd_n256_bf16"]
    short = shortened(names, 16)
    assert short[names[0]] != short[names[1]]


def test_names_that_fit_are_left_alone():
    assert {"relu": "relu", "matmul": "matmul"} == shortened(["relu", "matmul"], 12)


@given(st.lists(st.text(max_size=60), unique=True, max_size=40), st.integers(8, 40))
def test_short_names_fit_and_never_collide(names, width):
    short = shortened(names, width)
    assert len(set(short.values())) == len(names)
    assert all(len(text) <= width for text in short.values())


@given(st.text())
def test_a_safe_name_cannot_steer_a_terminal(text):
    assert safe(text).isprintable()
