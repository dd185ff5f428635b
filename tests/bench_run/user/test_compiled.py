"""Kernels in C and C++, CUDA and HIP: sources are built, libraries are called."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest

from bench_run.cli import main
from bench_run.engines.spec import parse_spec
from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError
from bench_run.graph.make import make_graphs
from bench_run.user import compiled
from bench_run.user.kernels import KernelFile, Problem, base_of
from bench_run.user.source import load_source

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")

ADD = """
    #include "bench_kernel.h"

    BENCH_KERNEL(add) {
      const float *a = (const float *)in[0]->data, *b = (const float *)in[1]->data;
      float *c = (float *)out[0]->data;
      int64_t n = 1;
      for (int i = 0; i < out[0]->ndim; ++i) n *= out[0]->shape[i];
      for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
      return 0;
    }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bench-run" / "kernels"


@pytest.fixture
def write(tmp_path):
    def write(text, name="my.cpp"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text).lstrip())
        return path

    return write


def graph_of(spec="add: n=1 c=2 h=3 w=4"):
    (graph,) = make_graphs(spec, "small", None, [])
    return graph


def call(path, graph, *inputs, name=None):
    kernel = KernelFile(load_source(str(path)), name).choose(graph, {}, None)
    problem = Problem(graph, {}, "cpu", None, lambda count: np.zeros(count, np.uint8))
    outputs = [np.zeros(t.dims, np.float32) for t in graph.outputs]
    return kernel.prepare(problem)(list(inputs), outputs)


def pair():
    return np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4), np.ones((1, 2, 3, 4), np.float32)


@pytest.mark.parametrize("name", ["my.cpp", "my.cc", "my.c"])
def test_a_source_runs_the_operation_that_its_function_is_named_after(write, name):
    a, b = pair()
    (found,) = call(write(ADD, name), graph_of(), a, b)
    np.testing.assert_array_equal(a + b, found)


@pytest.mark.long
def test_a_library_runs_as_it_is(write, tmp_path):
    library = tmp_path / "libmine.so"
    header = Path(compiled.__file__).parent
    command = ["c++", "-shared", "-fPIC", f"-I{header}", str(write(ADD)), "-o", str(library)]
    subprocess.run(command, check=True)
    a, b = pair()
    (found,) = call(library, graph_of(), a, b)
    np.testing.assert_array_equal(a + b, found)


def test_the_command_measures_and_validates_it(write, tmp_path, capsys):
    path, document = write(ADD), tmp_path / "r.json"
    options = ["--rounds", "1", "--iters", "3", "-o", str(document), "--quiet"]
    assert 0 == main(["--op", "add: n=1 c=2 h=3 w=4", "-e", f"kernel@{path}", *options])
    text = document.read_text()
    assert '"passed"' in text
    assert "-march=native" not in text  # the flags of every source are nobody's news


@pytest.mark.long
def test_a_wrong_one_is_found(write, tmp_path):
    path = write(ADD.replace("a[i] + b[i]", "a[i] - b[i]"))
    options = ["--rounds", "1", "--iters", "3", "--quiet"]
    assert 2 == main(["--op", "add: n=1 c=2 h=3 w=4", "-e", f"kernel@{path}", *options])


def test_the_first_line_gives_flags(write):
    source = '// flags: -DSHIFT=5\n#include "bench_kernel.h"\nBENCH_KERNEL(add) { return SHIFT; }\n'
    a, b = pair()
    with pytest.raises(EngineError, match=r"my.cpp: add returned 5$"):
        call(write(source), graph_of(), a, b)


def test_it_is_built_once_until_it_a_header_or_the_flags_change(write, cache):
    write("#define ONE 1\n", "own.h")
    text = '#include "own.h"\n' + textwrap.dedent(ADD)
    path = write(text)
    first = compiled.build(path)
    made = first.library.stat().st_mtime_ns
    assert made == compiled.build(path).library.stat().st_mtime_ns
    assert ["own.h"] == list(first.headers)
    for name, changed in (("own.h", "#define ONE 2\n"), ("my.cpp", f"// flags: -O1\n{text}")):
        write(changed, name)
        assert first.library != compiled.build(path).library
    assert 3 == len(list(cache.iterdir()))


def test_command_and_log_of_a_build_are_kept(write):
    log = (compiled.build(write(ADD)).library.parent / "log.txt").read_text()
    assert log.startswith("c++ -O3")
    assert "my.cpp" in log


def test_the_document_knows_the_compiler_and_the_library(write):
    facts = load_source(str(write(f"// flags: -O2\n{textwrap.dedent(ADD)}"))).libraries()
    assert "-O2" == facts["flags"]
    assert facts["c++"][0].isdecimal()
    assert 12 == len(facts["library"])


def test_an_error_of_the_compiler_names_file_and_line(write):
    with pytest.raises(EngineError, match=r"^my.cpp:4:\d+: error: .*nothing"):
        load_source(str(write(ADD.replace("const float *a", "nothing; const float *a", 1))))


def test_a_compiler_that_is_absent_is_told_with_what_names_another(write, monkeypatch):
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    with pytest.raises(EngineUnavailableError, match=r"no compiler no-such-nvcc .*; NVCC names"):
        load_source(str(write(ADD, "my.cu")))


def test_a_source_without_a_kernel_says_what_makes_one(write):
    with pytest.raises(EngineError, match=r"defines no function; BENCH_KERNEL\(name\)"):
        load_source(str(write("int x = 1;\n")))


def test_a_workspace_is_as_large_as_the_function_says(write):
    source = """
        #include "bench_kernel.h"
        BENCH_WORKSPACE(add) { return 4 * in[0]->shape[1]; }
        BENCH_KERNEL(add) { return workspace != NULL && workspace_bytes == 8 ? 0 : 1; }
    """
    graph, asked = graph_of(), []
    kernel = KernelFile(load_source(str(write(source)))).choose(graph, {}, None)
    problem = Problem(graph, {}, "cpu", None, lambda n: asked.append(n) or np.zeros(n, np.uint8))
    a, b = pair()
    kernel.prepare(problem)([a, b], [np.zeros_like(a)])
    assert ([8], 8) == (asked, problem.workspace_bytes)


def test_a_graph_that_the_function_refuses_is_unsupported(write):
    source = """
        #include "bench_kernel.h"
        BENCH_SUPPORTS(add) { return in[0]->ndim == 2; }
        BENCH_KERNEL(add) { return 0; }
    """
    a, b = pair()
    with pytest.raises(UnsupportedGraphError, match="add_supports says no"):
        call(write(source), graph_of(), a, b)


def test_of_several_functions_that_of_the_operation_runs(write):
    source = textwrap.dedent(ADD) + "BENCH_KERNEL(mul) { return 7; }\n"
    kernels = KernelFile(load_source(str(write(source)))).fitting(graph_of(), {})
    assert ["add"] == [each.name for each in kernels]


def test_a_name_of_ones_own_runs_every_graph(write):
    source = textwrap.dedent(ADD).replace("BENCH_KERNEL(add)", "BENCH_KERNEL(my_sum)")
    a, b = pair()
    (found,) = call(write(source), graph_of(), a, b, name="my_sum")
    np.testing.assert_array_equal(a + b, found)


def test_dims_strides_and_types_are_the_graphs(write):
    source = """
        #include "bench_kernel.h"
        BENCH_KERNEL(probe) {
          const DLTensor *x = in[0];
          if (inputs != 1 || outputs != 1 || x->ndim != 4) return 1;
          if (x->shape[1] != 3 || x->strides[1] != 1 || x->strides[3] != 3) return 2;
          if (x->dtype.code != 4 || x->dtype.bits != 16 || x->dtype.lanes != 1) return 3;
          if (x->device.device_type != 1 || x->byte_offset != 0 || stream != NULL) return 4;
          *(float *)out[0]->data = 7;
          return 0;
        }
    """
    graph = graph_of("relu: n=2 c=3 h=4 w=5 dtype=bfloat16 layout=nhwc")
    (found,) = call(write(source), graph, np.zeros((2, 3, 4, 5), np.uint16), name="probe")
    assert 7 == found[0, 0, 0, 0]


def test_sources_of_the_processor_get_arrays_of_the_processor(write):
    assert "numpy" == base_of(load_source(str(write(ADD))), has_torch=True)


@pytest.mark.parametrize(
    ("text", "path", "options"),
    [
        ("kernel:add@/my/lib.so+cpu", "/my/lib.so", ("cpu",)),
        ("kernel@/my/lib.c++/add.cpp", "/my/lib.c++/add.cpp", ()),
        ("kernel@/my/lib.c++/add.cpp+cpu", "/my/lib.c++/add.cpp", ("cpu",)),
        ("hipdnn:1@/builds/v1.so+debug/lib.so", "/builds/v1.so+debug/lib.so", ()),
    ],
)
def test_options_may_follow_the_path_of_a_kernel(text, path, options):
    spec = parse_spec(text)
    assert (path, options) == (spec.plugin_path, spec.options)


def test_what_the_assembler_says_is_read_for_each_kernel():
    log = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4fastPf' for 'sm_90'
ptxas info    : Function properties for _Z4fastPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 0 barriers
ptxas info    : Compiling entry function '_Z4slowPf' for 'sm_90'
ptxas info    : Function properties for _Z4slowPf
    96 bytes stack frame, 64 bytes spill stores, 72 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers
"""
    assert compiled.assembled(log) == {
        "ptxas _Z4fastPf": "16 registers",
        "ptxas _Z4slowPf": "255 registers, 96 B stack, 64 B spill stores, 72 B spill loads",
    }


@pytest.mark.long
def test_a_function_of_tvm_ffi_is_called_through_its_package(write, tmp_path):
    ffi = pytest.importorskip("tvm_ffi")
    source = """
        #include <tvm/ffi/container/tensor.h>
        #include <tvm/ffi/function.h>
        void add(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
          for (int64_t i = 0; i < 24; ++i)
            static_cast<float *>(c.data_ptr())[i] =
                static_cast<float *>(a.data_ptr())[i] + static_cast<float *>(b.data_ptr())[i];
        }
        TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add);
    """
    path, library = write(source), tmp_path / "libffi.so"
    include = [f"-I{place}" for place in ffi.libinfo.include_paths()]
    found = Path(ffi.libinfo.find_libtvm_ffi())
    command = ["c++", "-std=c++17", "-shared", "-fPIC", *include, str(path), "-o", str(library)]
    subprocess.run([*command, f"-L{found.parent}", f"-l:{found.name}"], check=True)
    a, b = pair()
    (result,) = call(library, graph_of(), a, b)
    np.testing.assert_array_equal(a + b, result)


@pytest.mark.long
def test_a_first_kernel_in_cpp_is_written_and_right(tmp_path, capsys):
    assert 0 == main(["init", "kernel", "cpp", "-o", str(tmp_path)])
    assert "kernel@" in capsys.readouterr().out
    words = ["--rounds", "1", "--iters", "3", "--quiet"]
    engine = f"kernel@{tmp_path / 'my_kernel.cpp'}"
    for layout in ("nn", "tt"):
        op = f"matmul: m=16 n=24 k=32 layout={layout}"
        assert 0 == main(["--op", op, "-e", engine, *words])


def test_a_first_kernel_in_cuda_has_its_suffix(tmp_path):
    assert 0 == main(["init", "kernel", "cuda", "-o", str(tmp_path)])
    assert "BENCH_KERNEL(relu)" in (tmp_path / "my_kernel.cu").read_text()
