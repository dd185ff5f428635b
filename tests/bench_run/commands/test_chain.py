"""`bench-run PIPELINE --chain` and `--seams`, from the command line to the document."""

import pytest
from bench_schema import files

from bench_run.cli import main
from bench_run.plan.load import read_chain
from tests.bench_run.graph.chain.pipelines import IMAGE, RESIDUAL

QUICK = ["--rounds", "1", "--iters", "3", "--engine", "numpy", "--quiet"]


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text(RESIDUAL)
    return path


def run(tmp_path, *words):
    out = tmp_path / "out.json"
    code = main([*map(str, words), *QUICK, "-o", str(out)])
    return code, files.read(out)


def test_a_pipeline_runs_as_one_case(pipeline, tmp_path):
    code, document = run(tmp_path, pipeline, "--chain")
    (case,) = document.cases
    assert (0, "net", "chain", 3) == (
        code,
        case.graph.name,
        case.graph.family,
        len(case.graph.layers),
    )


def test_every_layers_output_is_validated_against_the_composed_reference(pipeline, tmp_path):
    _, document = run(tmp_path, pipeline, "--chain")
    validation = document.cases[0].validation
    names = [output.name for output in validation.outputs]
    assert ("passed", ["conv:y", "again:y", "sum:y"]) == (validation.status, names)


def test_each_timed_iteration_runs_on_overwritten_outputs(pipeline, tmp_path):
    _, document = run(tmp_path, pipeline, "--chain")
    validation = document.cases[0].validation
    warmup, timed = 10, 3
    assert validation.iterations_poisoned >= warmup + timed
    assert validation.inputs_unchanged


def test_an_output_between_layers_that_is_off_fails_the_chain(pipeline, tmp_path):
    """float32 sums are not the reference's to the last bit, in any layer."""
    code, document = run(tmp_path, pipeline, "--chain", "--rtol", "0", "--atol", "0")
    outputs = {o.name: o.mismatched > 0 for o in document.cases[0].validation.outputs}
    assert (2, True) == (code, outputs["again:y"])


@pytest.mark.long
def test_seams_are_graphs_alone_and_distinct_pairs(pipeline, tmp_path):
    _, document = run(tmp_path, pipeline, "--seams")
    alone = [c.graph.fingerprint for c in document.cases if not c.graph.layers]
    pairs = [(c.graph.name, c.graph.layers) for c in document.cases if c.graph.layers]
    conv, add = alone
    assert [("net:conv+again", (conv, conv)), ("net:again+sum", (conv, add))] == pairs


@pytest.mark.long
def test_a_chain_is_measured_with_what_it_is_made_of(pipeline, tmp_path):
    _, document = run(tmp_path, pipeline, "--chain", "--seams")
    names = [case.graph.name for case in document.cases if case.graph.layers]
    assert (["net:conv+again", "net:again+sum", "net"], 5) == (names, len(document.cases))


@pytest.mark.long
def test_nothing_runs_before_the_chain_of_a_pass(pipeline, tmp_path):
    _, document = run(tmp_path, pipeline, "--chain", "--seams", "--cache", "pass")
    told = [case.plan["before each iteration"] for case in document.cases]
    assert "nothing: it is the whole pass" == told[-1]
    assert all("of the pipeline run" in each for each in told[:-1])


@pytest.mark.long
def test_graphs_alone_are_filled_as_their_layers_say(pipeline, tmp_path):
    _, document = run(tmp_path, pipeline, "--seams")
    assert "filled as conv of net: w=uniform:-0.3:0.3" in document.cases[0].notes


@pytest.mark.parametrize(("flags", "value"), [([], 7.0), (["--init", "x=constant:5"], 5.0)])
def test_inputs_are_filled_as_the_suite_says_unless_a_flag_does(flags, value, tmp_path):
    from safetensors.numpy import load_file

    path = tmp_path / "net.toml"
    path.write_text('[[graph]]\nop = "relu: dims=2x3 dtype=float"\ninit = { x = "constant:7" }\n')
    code, _ = run(tmp_path, path, *flags, "--save-outputs", str(tmp_path / "outputs"))
    (saved,) = (tmp_path / "outputs").glob("*.safetensors")
    (values,) = load_file(saved).values()
    assert (0, [value] * 6) == (code, values.reshape(-1).tolist())


@pytest.mark.long
def test_a_pair_that_occurs_again_is_measured_once(tmp_path):
    path = tmp_path / "net.toml"
    third = f'[[graph]]\nid = "third"\nop = "conv_fwd+bias+relu: {IMAGE} k=4 pad=1"\n'
    path.write_text(RESIDUAL + third + 'tensor = { x = "again:y" }\n')
    _, document = run(tmp_path, path, "--seams")
    names = [c.graph.name for c in document.cases if c.graph.layers]
    assert ["net:conv+again", "net:again+sum", "net:sum+third"] == names


@pytest.mark.long
@pytest.mark.parametrize("cache", ["hot", "weights-cold"])
def test_the_document_says_which_memory_was_shared(pipeline, tmp_path, cache):
    _, document = run(tmp_path, pipeline, "--chain", "--cache", cache)
    found = document.cases[0].plan["activations"], document.run.settings.cache
    assert ("shared: 3 of 3 links", cache) == found


def test_a_finished_chain_is_not_measured_again(pipeline, tmp_path):
    out = tmp_path / "out.json"
    words = [str(pipeline), "--chain", *QUICK, "-o", str(out)]
    main(words)
    before = files.read(out).cases[0].rounds[0].pid
    assert 0 == main([*words, "--resume"])
    assert before == files.read(out).cases[0].rounds[0].pid


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.json", "--chain"], "--chain: x.json is not a pipeline; expected a file in .toml"),
        (["--op", "relu", "--chain"], "take pipelines only"),
        (["{pipeline}", "--chain", "--save-graphs", "x"], "--save-graphs do not go together"),
        (["{pipeline}", "--chain", "--golden", "x"], "--chain and --golden do not go together"),
        (["{pipeline}", "--seams", "--scale-batch", "2"], "together: links hold for the batch of"),
        (["none.toml", "--chain"], "none.toml: cannot be read"),
        (["{pipeline}", "--chain", "--cache", "pass"], "--cache pass goes with --seams"),
        (["{pipeline}", "{pipeline}", "--seams", "--cache", "pass"], "--cache pass: one pipeline"),
    ],
)
def test_what_cannot_be_a_chain_is_one_line(pipeline, capsys, words, message):
    assert 1 == main([word.format(pipeline=pipeline) for word in words])
    said = capsys.readouterr().err
    assert (True, 1) == (message in said, said.count("\n"))


def test_an_output_that_no_layer_writes_is_one_line(pipeline, capsys):
    text = pipeline.read_text()
    pipeline.write_text('output = ["sum:z"]\n' + text.replace('output = ["sum:y"]\n', ""))
    assert 1 == main([str(pipeline), "--chain"])
    said = capsys.readouterr().err
    assert ("output sum:z: no tensor 'z'; choose from y" in said, said.count("\n")) == (True, 1)


def test_what_the_model_lacks_is_a_note_of_the_case(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text(RESIDUAL + '[[left_out]]\noperation = "softmax"\ncount = 2\nshare = 0.25\n')
    _, document = run(tmp_path, path, "--chain")
    assert "without 25.0% of the model's work: 2 × softmax" in document.cases[0].notes


@pytest.mark.long
def test_in_the_state_of_a_pass_as_much_is_touched_as_the_pipeline_holds(pipeline, tmp_path):
    _, document = run(tmp_path, pipeline, "--seams", "--cache", "pass")
    chain = read_chain(pipeline).graph
    held = sum(tensor.bytes for tensor in (*chain.inputs, *chain.outputs))
    assert ("pass", held) == (document.run.settings.cache, document.run.settings.pass_bytes)
    assert {note for case in document.cases for note in case.notes if "touched" in note} == {
        f"{held} bytes are touched before each iteration, as in a pass of the pipeline"
    }


@pytest.mark.long
def test_in_the_state_of_a_pass_the_other_layers_run_before_each_iteration(pipeline, tmp_path):
    _, document = run(tmp_path, pipeline, "--seams", "--cache", "pass")
    counts = {case.graph.name: case.plan["before each iteration"] for case in document.cases}
    assert set(counts.values()) == {
        "1 layers of the pipeline run, linked with it",
        "2 layers of the pipeline run, linked with it",
    }
    assert counts["net:conv+again"] == "1 layers of the pipeline run, linked with it"


def test_a_graph_without_weights_says_that_none_are_cold(tmp_path):
    out = tmp_path / "out.json"
    words = ["--op", "relu: dims=8x8", "--cache", "weights-cold", *QUICK, "-o", str(out)]
    assert 0 == main(words)
    assert "--cache weights-cold: no weights: its caches are hot" in files.read(out).cases[0].notes
