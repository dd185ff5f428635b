"""Files of other tools, as these tools write them, and what a person expects of a comparison."""

from __future__ import annotations

import json

import pytest

from bench_compare.cli import main

NOISE = (1.0, 1.004, 0.997, 1.002, 0.999, 1.001, 0.996, 1.003)


def saved(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


@pytest.fixture
def told(tmp_path, capsys):
    """Compare contents: the exit code, the verdicts by case, and the report."""

    def tell(*contents, flags=(), names=("a.json", "b.json")):
        paths = [
            saved(tmp_path, f"{n}/{name}", content)
            for n, (name, content) in enumerate(zip(names, contents, strict=False))
        ]
        code = main([*paths, *flags, "--json", "-"])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        report = json.loads(said.out) if said.out.startswith("{") else {"cases": []}
        return code, {one["name"]: one["verdict"] for one in report["cases"]}, report, said.err

    return tell


def ratio(report, name):
    (one,) = (case for case in report["cases"] if case["name"] == name)
    return one["metrics"][one["gate"]]["ratio"]


# Google Benchmark


def google(*rows, **context):
    return {"context": {"host_name": "h", **context}, "benchmarks": list(rows)}


def repeated(name, time, count=8, **more):
    return [
        {"name": name, "run_name": name, "run_type": "iteration", "repetition_index": n,
         "iterations": 1000, "real_time": time * NOISE[n % 8], "time_unit": "ns", **more}
        for n in range(count)
    ]  # fmt: skip


def test_files_of_before_run_names_are_compared(told):
    old, new = ({"name": "f", "iterations": 9, "real_time": t, "time_unit": "ns"} for t in (10, 20))
    code, verdicts, report, _ = told(google(old), google(new))
    assert (code, verdicts) == (2, {"f": "slower"})
    assert ratio(report, "f") == pytest.approx(2.0)


def test_aggregates_of_before_aggregate_names_are_those_of_their_benchmark(told):
    def tree(time):
        row = {"iterations": 9, "time_unit": "ns"}
        ends = {"_mean": time, "_median": time, "_stddev": time / 100}
        return google(
            *({**row, "name": "f", "real_time": time * n} for n in NOISE),
            *({**row, "name": f"f{end}", "real_time": value} for end, value in ends.items()),
        )

    assert told(tree(1000), tree(2000))[1] == {"f": "slower"}


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("family", [{}, {"family_index": 1}])
def test_two_benchmarks_of_one_name_are_two_cases(count, family, told):
    def tree(second):
        return google(
            *repeated("f/64", 1000, count, **({"family_index": 0} if family else {})),
            *repeated("f/64", second, count, **family),
        )

    code, verdicts, _, _ = told(tree(3000), tree(9000))
    assert code == 2
    assert verdicts["f/64 #2"] == "slower"
    assert verdicts["f/64"] in ("same", "unclear")


def test_a_time_that_is_not_a_number_costs_that_benchmark_only(told):
    rows = repeated("f", 1000), repeated("g", 1000)
    text = json.dumps(google(*rows[0], *rows[1])).replace("1000.0", "NaN")
    broken = json.dumps(google(*rows[0], {**rows[1][0], "real_time": float("nan")}))
    assert "NaN" in text
    code, verdicts, _, _ = told(google(*rows[0], *rows[1]), broken)
    assert (code, verdicts["g"]) == (2, "lost")
    assert verdicts["f"] != "lost"


def test_a_time_of_zero_is_lost(told):
    good, gone = (google(*repeated("f", 1500), *repeated("g", t)) for t in (1500, 0))
    code, verdicts, _, _ = told(good, gone)
    assert (code, verdicts["g"]) == (2, "lost")


def test_a_factor_of_seven_is_decided_by_one_repetition_and_by_ten(told):
    for count in (1, 2, 8):
        trees = (google(*repeated("f", time, count)) for time in (1000, 7000))
        assert told(*trees)[0] == 2


def test_no_repetition_is_thrown_away(told):
    times = [8877, 8837] * 5, [8986] * 10
    trees = (google(*({**repeated("f", 1, 1)[0], "repetition_index": n, "real_time": t}
                      for n, t in enumerate(some))) for some in times)  # fmt: skip
    _, _, report, _ = told(*trees)
    assert report["cases"][0]["metrics"]["e2e_ns"]["other"] == pytest.approx(8986.0)


COMPARE_PY = {
    "same time": (10, 10), "twice as fast": (50, 25), "twice as slow": (50, 100),
    "1% faster": (100, 98.9), "1% slower": (100, 100.9), "10% faster": (100, 90),
    "10% slower": (100, 110), "100 times slower": (100, 10000), "100 times faster": (10000, 100),
    "10% cpu to time": (100, 100), "third": (10000, 6700), "not a time unit": (0.4, 0.5),
}  # fmt: skip
"""Pairs of times like those of the test inputs of Google Benchmark's own comparison."""


def test_ratios_are_those_of_google_benchmarks_own_comparison(told):
    def tree(side):
        return google(*(row for name, pair in COMPARE_PY.items()
                        for row in repeated(f"BM_{name}", pair[side], 1)))  # fmt: skip

    _, _, report, _ = told(tree(0), tree(1))
    for name, (old, new) in COMPARE_PY.items():
        assert ratio(report, f"BM_{name}") - 1 == pytest.approx((new - old) / old, abs=1e-6)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_rows_of_one_name_without_an_index_are_repetitions(count, told):
    def tree(scale):
        row = {"name": "f", "iterations": 9, "time_unit": "ns"}
        return google(*({**row, "real_time": scale * (1000 + n)} for n in range(count)))

    _, _, report, _ = told(tree(1), tree(2))
    found = report["cases"][0]["metrics"]["e2e_ns"]
    assert found["base"] == pytest.approx(1000 + (count - 1) / 2)
    assert ratio(report, "f") == pytest.approx(2.0)


def test_an_aggregate_that_is_a_percentage_is_no_time(told):
    row = {"name": "f", "run_type": "aggregate", "aggregate_name": "zz", "real_time": 0.01}
    code, verdicts, _, _ = told(google(row, a=1), google(row, a=2))
    assert code == 1
    assert set(verdicts.values()) <= {"not measured"}


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_units_of_time_are_read(unit, told):
    scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
    rows = [{**row, "real_time": row["real_time"] / scale, "time_unit": unit}
            for row in repeated("f", 2e9)]  # fmt: skip
    _, _, report, _ = told(google(*repeated("f", 1e9)), google(*rows))
    assert ratio(report, "f") == pytest.approx(2.0)


# Encodings


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_text_of_windows_is_read(encoding, told):
    text = json.dumps(google(*repeated("f", 1000, 1)))
    data = text.encode(encoding)
    if encoding == "utf-16-be":
        data = b"\xfe\xff" + data
    assert told(text, data)[1] == {"f": "same"}


TABLE = "N,cuBLAS (ms),Triton (ms)\n128,0.02,0.03\n256,0.05,0.06\n"
SPREADSHEETS = {
    "mark": b"\xef\xbb\xbf" + TABLE.encode(),
    "crlf": TABLE.replace("\n", "\r\n") + "\r\n",
    "empty lines": TABLE + "\n,,\n",
    "decimal commas": TABLE.replace(",", ";").replace(".", ","),
    "tabs": TABLE.replace(",", "\t"),
}


@pytest.mark.parametrize("kind", SPREADSHEETS)
def test_a_table_from_a_spreadsheet_is_the_same_table(kind, told):
    code, verdicts, report, _ = told(TABLE, SPREADSHEETS[kind], names=("t.csv", "t.csv"))
    assert (code, len(report["cases"])) == (0, 4)
    assert set(verdicts.values()) == {"same"}


def test_a_comma_of_thousands_is_no_decimal_comma(told):
    table = "N\ttriton (ms)\n64\t1.5\n128\t1,024\n"
    code, verdicts, _, _ = told(table, table + "\n", names=("t.csv", "t.csv"))
    assert verdicts == {"N=64": "same", "N=128": "not measured"}
    assert told('N,t (ms)\n64,"1,5"\n', 'N,t (ms)\n64,"1,6"\n', names=("t.csv",) * 2)[0] == 1
    assert code in (0, 1)


@pytest.mark.parametrize(
    "title", ["triton (ms)", "triton [ms]", "triton (Runtime in ms)", "triton (time (ms))"]
)
def test_the_unit_of_a_column_is_in_the_label_of_its_axis(title, told):
    old, new = (f"N,{title}\n64,{time}\n" for time in (1, 2))
    _, _, report, _ = told(old, new, names=("t.csv", "t.csv"))
    assert report["cases"][0]["engine"] == "triton"
    assert ratio(report, "N=64") == pytest.approx(2.0)


def test_columns_of_the_least_and_most_are_no_providers(told):
    table = "N,triton (GB/s),triton-min (GB/s),triton-max (GB/s)\n64,100,90,110\n"
    _, _, report, _ = told(table, table.replace("100", "50"), names=("t.csv", "t.csv"))
    (one,) = report["cases"]
    assert one["engine"] == "triton"
    assert ratio(report, "N=64") == pytest.approx(2.0)


# dnn-benchmarking


def dnn_row(engine, median, role="engine", **more):
    kernel = {"n": 100, "mean_ms": median, "std_ms": median / 100, "median_ms": median,
              "iqr_ms": median / 100}  # fmt: skip
    return {"provider": "hipdnn", "role": role, "engine": {"id": "0xA", "name": engine},
            "status": "success", "timing": {"mode": "staged", "backend": "hip", "timing_block": 1},
            "kernel": kernel, "warnings": [], **more}  # fmt: skip


def dnn(*rows, **config):
    graph = {"graph_id": "0123456789ab", "graph_name": "conv", "graph_path": "conv.json",
             "status": "ok", "results": list(rows)}  # fmt: skip
    return {"schema_version": 2, "run": {"config": {"cache_mode": "warm", **config}},
            "environment": {"gpu_model": "MI300X"}, "graphs": [graph]}  # fmt: skip


def test_a_row_of_role_reference_never_counts(told):
    old, new = (dnn(dnn_row("A", 1.0), dnn_row("torch", t, "reference")) for t in (1.0, 2.0))
    assert told(old, new)[:2] == (0, {"conv": "same"})


def test_a_noisy_row_is_unclear_with_the_words_of_its_file(told):
    noisy = dnn_row("A", 1.2, warnings=["noisy: IQR 30 %", "outlier: 3x", "throttled"])
    noisy["kernel"]["iqr_ms"] = 0.36
    code, verdicts, report, _ = told(dnn(dnn_row("A", 1.0)), dnn(noisy))
    assert (code, verdicts) == (1, {"conv": "unclear"})
    assert {"noisy", "outlier", "throttled"} <= {
        note["kind"] for note in report["cases"][0]["notes"]
    }


def test_blocks_of_launches_are_another_way_of_timing(told):
    block = dnn_row("A", 0.7)
    block["timing"] = {"mode": "block", "backend": "hip", "timing_block": 50}
    code, verdicts, report, _ = told(dnn(dnn_row("A", 1.0)), dnn(block))
    assert (code, verdicts) == (1, {"conv": "unclear"})
    (timer,) = (one for one in report["differences"] if one["name"] == "timer")
    assert timer["must_agree"]


def test_a_row_that_fell_back_to_another_clock_is_unclear(told):
    slow = dnn_row("A", 2.0)
    slow["timing"] = {"mode": "events", "backend": "hip", "timing_block": 1}
    _, verdicts, report, _ = told(
        dnn(dnn_row("A", 1.0), dnn_row("B", 1.0)), dnn(slow, dnn_row("B", 2.0))
    )
    found = {case["engine"]: case["verdict"] for case in report["cases"]}
    assert found == {"A": "unclear", "B": "slower"}, verdicts


def test_another_setting_of_its_run_is_told(told):
    trees = (dnn(dnn_row("A", 1.0), autotune=on) for on in (False, True))
    assert "environment" in {one["name"] for one in told(*trees)[2]["differences"]}


# primbench


def primbench(rate=1e9, size=1 << 20, gpu="MI210", version="4.0.0", **more):
    general = {"algorithm": "copy", "host_name": "h"}
    if version.startswith("4"):
        general["gpu"] = {"name": gpu}
    else:
        general |= {"gpu_name": gpu, "hip_version": "6.4"}
    one = {"name": "int", "items": 1 << 20, "items_per_second": rate, "bytes_per_item": 4,
           "noise_timeout": False, "noise_percent": 0.1,
           "calls": {"batches": 40}, **more}  # fmt: skip
    context = {"results_version": version, "general": general, "settings": {"size": size}}
    return {"context": context, "specializations": [one]}


def test_what_primbench_gave_up_on_is_unclear(told):
    old, new = primbench(), primbench(0.8e9, noise_timeout=True, noise_percent=38.0)
    assert told(old, new)[:2] == (1, {"copy [int]": "unclear"})


def test_another_size_of_primbench_is_other_work(told):
    code, verdicts, _, _ = told(primbench(), primbench(128e9, size=1 << 13))
    assert (code, verdicts) == (1, {"copy [int]": "incomparable"})


def test_the_device_of_a_file_of_before_version_4_is_told(told):
    old, new = (primbench(gpu=gpu, version="2.0.0") for gpu in ("MI210", "MI300X"))
    (found,) = (one for one in told(old, new)[2]["differences"] if one["name"] == "device kind")
    assert (found["base"], found["other"]) == ("MI210", "MI300X")


# nvbench


def nvbench(mean, noise, count=5):
    data = {"nv/cold/time/gpu/mean": mean, "nv/cold/time/gpu/stdev/relative": noise,
            "nv/cold/sample_size": count}  # fmt: skip
    summaries = [{"tag": tag, "data": [{"name": "value", "value": str(value)}]}
                 for tag, value in data.items()]  # fmt: skip
    state = {"device": 0, "axis_values": [{"name": "N", "value": "64"}], "summaries": summaries}
    version = {"json": {"string": "1.0.0"}, "nvbench": {"string": "0.1"}}
    device = {"id": 0, "name": "H100"}
    return {"meta": {"version": version}, "devices": [device],
            "benchmarks": [{"name": "copy", "states": [state]}]}  # fmt: skip


@pytest.mark.parametrize(("change", "noise", "expected"), [
    (1.05, 0.40, "unclear"), (1.03, 0.05, "unclear"), (2.0, 0.01, "slower"), (0.5, 0.01, "faster"),
])  # fmt: skip
def test_the_noise_that_nvbench_states_decides(change, noise, expected, told):
    trees = nvbench(1e-3, noise, 20), nvbench(1e-3 * change, noise, 20)
    _, verdicts, report, _ = told(*trees)
    assert verdicts == {"copy [N=64]": expected}
    assert ratio(report, "copy [N=64]") == pytest.approx(change)


def test_a_state_without_an_accepted_sample_does_not_pass(told, tmp_path):
    empty = nvbench(1e-3, 0.01)
    empty["benchmarks"][0]["states"][0]["summaries"] = []
    assert told(nvbench(1e-3, 0.01), empty)[:2] == (2, {"copy [N=64]": "lost"})
    assert main([saved(tmp_path, "e.json", empty)]) == 1


# hyperfine


def hyperfine(*rows):
    return {"results": [
        {"command": command, "mean": t, "stddev": t / 500, "median": t, "min": t, "max": t,
         "times": [t * n for n in NOISE], "exit_codes": codes or [0] * 8,
         **({"parameters": given} if given else {})}
        for command, t, given, codes in rows
    ]}  # fmt: skip


@pytest.mark.parametrize("names_program", [False, True])
def test_a_scan_of_parameters_pairs(names_program, told):
    rows = []
    for program, factor in (("./old", 1), ("./new", 2)):
        for n in (1, 2, 4):
            given = {"prog": program, "n": str(n)} if names_program else {"n": str(n)}
            rows.append((f"{program} --n {n}", 0.1 * n * factor, given, None))
    code, verdicts, _, _ = told(hyperfine(*rows), flags=("--group-by", "engine"))
    assert (code, verdicts) == (2, dict.fromkeys(("n=1", "n=2", "n=4"), "slower"))


def test_a_value_that_stands_in_another_word_is_not_taken_for_it(told):
    rows = [
        (f"./{program} run 1 --n {n}", t * n, {"n": str(n)}, None)
        for program, t in (("old", 0.1), ("new", 0.2))
        for n in (1, 2)
    ]
    code, verdicts, _, _ = told(hyperfine(*rows), flags=("--group-by", "engine"))
    assert (code, verdicts) == (2, {"n=1": "slower", "n=2": "slower"})


@pytest.mark.parametrize("code", [None, 1, 7])
def test_a_command_that_failed_is_broken(code, told):
    fine, wrong = (
        hyperfine(("./f", 1.0, None, None)),
        hyperfine(("./f", 1.0, None, [0] * 7 + [code])),
    )
    assert told(fine, wrong)[:2] == (2, {"command": "broken"})


def test_exit_codes_that_are_meant_are_accepted(told):
    trees = [hyperfine(("grep x", 1.0 + 1e-9 * n, None, [1] * 8)) for n in range(2)]
    assert told(*trees)[0] == 1
    assert told(*trees, flags=("--exit-codes", "0,1", "--threshold", "5%"))[:2] == (
        0,
        {"command": "same"},
    )


# pytest-benchmark, pyperf


def pytest_file(prefix, time, data=True):
    stats = {
        "median": time,
        "mean": time,
        "min": time,
        "max": time,
        "iqr": time / 500,
        "stddev": time / 500,
        "rounds": 8,
        "data": [time * n for n in NOISE] if data else None,
    }
    rows = [{"name": f"test_f[{n}]", "fullname": f"{prefix}t.py::test_f[{n}]", "stats": stats}
            for n in range(2)]  # fmt: skip
    return {"machine_info": {"node": "h"}, "version": "5.1", "benchmarks": rows}


@pytest.mark.parametrize("data", [True, False])
@pytest.mark.parametrize("prefixes", [("", ""), ("tests/", "repo/tests/"), ("tests/", "")])
def test_tests_are_paired_whatever_folder_pytest_ran_in(prefixes, data, told):
    trees = [pytest_file(prefix, t, data) for prefix, t in zip(prefixes, (1.0, 2.0), strict=True)]
    code, verdicts, _, _ = told(*trees)
    assert (code, verdicts) == (2, {"test_f[0]": "slower", "test_f[1]": "slower"})


def pyperf(time):
    runs = [{"values": [time * n, time * n * 1.001]} for n in NOISE]
    metadata = {"name": "f", "unit": "second", "perf_version": "2.6"}
    return {"version": "1.0", "metadata": metadata, "benchmarks": [{"runs": runs}]}


def test_the_processes_of_pyperf_are_rounds(told):
    code, verdicts, report, _ = told(pyperf(1e-6), pyperf(1.05e-6))
    assert (code, verdicts) == (2, {"f": "slower"})
    assert ratio(report, "f") == pytest.approx(1.05, rel=1e-3)


# Tools that print text, and others


def hipblaslt(time_us):
    head = (
        "transA,transB,batch_count,m,n,k,alpha,lda,beta,a_type,hipblaslt-Gflops,hipblaslt-GB/s,us"
    )
    row = f"N,T,1,512,256,128,1,512,0,f16_r,4100.5,55.2,{time_us}"
    return f"hipBLASLt version: 1\n[0]:{head}\n    {row}\n    --Solution index: 4711\n"


def rocblas(time_us):
    return (
        f"transA,transB,M,N,K,alpha,lda,beta,ldb,ldc,rocblas-Gflops,us\n"
        f"N,T,1000,500,250,1,1000,0,500,1000, 12345.6, {time_us}\n"
        f"N,alpha,incx,incy,rocblas-Gflops,rocblas-GB/s,us\n1048576,1,1,1, 210, 1263, 9.96\n"
    )


def benchdnn(time_ms):
    head = "perf,%engine%,%impl%,%name%,%prb%,%Gops%,%+ctime%,%-time%,%-Gflops%,%0time%,%0Gflops%"
    return (f"Output template: {head}\nperf,cpu,jit:avx512,\"net:c1\",--mode=P --conv "
            f"--attr-post-ops=relu,sum mb1ic64ih56oc64oh56kh3ph1,0.23,3.2,{time_ms * 0.9},250,"
            f"{time_ms},230\ntests:1 passed:1 skipped:0\n")  # fmt: skip


def trtexec(time_ms):
    return [{"startComputeMs": 250 + 2 * n, "computeMs": time_ms * NOISE[n % 8], "h2dMs": 0.1,
             "latencyMs": time_ms * NOISE[n % 8] + 0.2} for n in range(40)]  # fmt: skip


def miopen(time_ms):
    return (
        f"MIOpenDriver convfp16 -n 2 -c 8 -H 10 -W 10 -k 16 -y 3 -x 3 -F 1 -t 1\n"
        f"MIOpen Forward Conv. Algorithm: 5, Solution: 155/ConvHipIgemm\n"
        f"GPU Kernel Time Forward Conv. Elapsed: {time_ms} ms (average)\n"
        "stats: name, n, c, ho, wo, y, x, k, "
        "flopCnt, bytesRead, bytesWritten, GFLOPs, GB/s, timeMs\n"
        f"stats: fwd-conv3x3u1, 2, 8, 10, 10, 3, 3, 16,  460800, 8704, 3200, 23, 1, {time_ms}\n"
        "Forward Convolution Verifies OK on GPU reference (1.2e-05 < 0.0082)\n"
    )


def go(time_ns):
    lines = [
        f"BenchmarkEnc/size=1e4-8   1000   {time_ns * n} ns/op   64.88 MB/s   2 allocs/op"
        for n in NOISE
    ]
    return "goos: linux\npkg: x/y\ncpu: C\n" + "\n".join(lines) + "\nPASS\nok  x/y 3.2s\n"


def criterion(time_ns):
    one = {
        "reason": "benchmark-complete",
        "id": "g/f",
        "unit": "ns",
        "iteration_count": [10] * 8,
        "measured_values": [10 * time_ns * n for n in NOISE],
        "median": {"estimate": time_ns},
    }
    return json.dumps(one) + "\n" + json.dumps({"reason": "group-complete"}) + "\n"


def estimates(time_ns):
    point = {"point_estimate": time_ns, "standard_error": 1.0}
    return dict.fromkeys(("mean", "median", "median_abs_dev", "std_dev"), point) | {
        "median_abs_dev": {"point_estimate": time_ns / 500},
        "std_dev": {"point_estimate": time_ns / 500},
    }


def tritonbench(time_ms):
    return (
        f"(M, N, K);aten_matmul-latency;triton_mm-latency;triton_mm-tflops\n"
        f"(256, 256, 256);0.0071;{time_ms};4.04\naverage;;;4.04\n"
    )


def tritonbench_json(time_ms):
    return {"tritonbench_gemm_fwd[x_(256, 256)-triton_mm]_latency": str(time_ms),
            "tritonbench_gemm_fwd[x_(256, 256)-triton_mm]_tflops": 4.0,
            "tritonbench_gemm_fwd[triton_mm]-tflops-avg": 4.0}  # fmt: skip


TOOLS = {
    "hipblaslt-bench": (hipblaslt, "b.txt", "device_ns", 1e3, "batch_count=1 m=512"),
    "rocblas-bench": (rocblas, "b.txt", "device_ns", 1e3, "M=1000 N=500"),
    "benchdnn": (benchdnn, "b.log", "e2e_ns", 1e6, "--conv --attr-post-ops=relu,sum mb1ic64ih56"),
    "trtexec": (trtexec, "b.json", "device_ns", 1e6, "inference"),
    "MIOpenDriver": (miopen, "b.txt", "device_ns", 1e6, "convfp16 -n 2 -c 8"),
    "go": (go, "b.txt", "e2e_ns", 1, "Enc/size=1e4-8"),
    "criterion messages": (criterion, "b.jsonl", "e2e_ns", 1, "g/f"),
    "criterion estimates": (estimates, "x/g/f/new/estimates.json", "e2e_ns", 1, "g/f"),
    "tritonbench": (tritonbench, "gemm.csv", "device_ns", 1e6, "gemm [(M, N, K)=(256, 256, 256)]"),
    "tritonbench json": (tritonbench_json, "b.json", "device_ns", 1e6, "gemm_fwd [(256, 256)]"),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_files_of_a_tool_are_compared(tool, told):
    make, name, series, unit_ns, case = TOOLS[tool]
    code, _, report, _ = told(make(500.0), make(1500.0), names=(name, name))
    (found,) = (one for one in report["cases"] if one["verdict"] == "slower")
    assert case in found["name"]
    assert found["gate"] == series
    assert found["metrics"][series]["base"] == pytest.approx(500.0 * unit_ns, rel=0.002)
    assert found["metrics"][series]["ratio"] == pytest.approx(3.0, rel=0.002)
    assert code == 2


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("command", ["compare", "history", "pages", "export"])
def test_every_command_reads_what_a_comparison_reads(tool, command, tmp_path, capsys):
    make, name, *_ = TOOLS[tool]
    paths = [saved(tmp_path, f"in/{n}/{name}", make(500.0 + n)) for n in range(5)]
    words = {
        "compare": paths[:2],
        "history": ["history", *paths],
        "export": ["export", paths[0], "--to", "hud"],
        "pages": ["pages", *paths, "-o", str(tmp_path / "site")],
    }
    code = main(words[command])
    said = capsys.readouterr()
    assert "no results of a tool" not in said.out + said.err
    assert "no document has" not in said.out + said.err
    assert said.out
    assert code in (0, 1, 2)


def test_both_sides_of_a_run_of_tritonbench_are_engines(told):
    key = "tritonbench_gemm_fwd[x_(64, 64)-mm]"
    tree = {side: {"metrics": {key: {"latency": [time * n for n in NOISE]}}}
            for side, time in (("side-a", 1.0), ("side-b", 2.0))}  # fmt: skip
    code, verdicts, report, _ = told(tree, flags=("--group-by", "engine"))
    assert (code, verdicts) == (2, {"gemm_fwd [(64, 64)]": "slower"})
    assert ratio(report, "gemm_fwd [(64, 64)]") == pytest.approx(2.0, rel=1e-3)


def test_a_failed_check_of_miopen_is_that_of_its_step(told):
    steps = ("Backward Data", "Backward Weights")
    text = "MIOpenDriver conv -n 2 -c 8 -F 6 -t 1\n" + "".join(
        f"GPU Kernel Time {step} Conv. Elapsed: 0.5 ms (average)\n" for step in steps
    )
    good = text + "".join(
        f"Backward Convolution {part} Verifies OK on GPU reference (1e-5 < 8e-3)\n"
        for part in ("Data", "Weights")
    )
    bad = good.replace("Data Verifies OK on GPU reference (1e-5 < 8e-3)", "Data FAILED: 1 > 8e-3")
    code, verdicts, _, _ = told(good, bad, names=("m.txt", "m.txt"))
    found = {name.partition("(")[2][:-1]: verdict for name, verdict in verdicts.items()}
    assert code == 2
    assert found == {"backward data": "newly wrong", "backward weights": "same"}


@pytest.mark.parametrize(
    "text", ["x" * 300_000, "\n" * 200_000 + "x", " " * 100_000 + "(", "a b, " * 60_000, "\0" * 9]
)
def test_long_text_of_no_tool_is_refused_in_a_moment(text, tmp_path, capsys):
    assert main([saved(tmp_path, "x.txt", text)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_run_before_of_criterion_is_read_where_it_is_named(tmp_path, capsys):
    for kind, time in (("base", 100.0), ("new", 200.0)):
        saved(tmp_path, f"f/{kind}/estimates.json", estimates(time))
        saved(tmp_path, f"f/{kind}/benchmark.json", {"full_id": "f"})
    assert main([str(tmp_path / "f/base"), str(tmp_path / "f/new")]) == 2
    assert "slower (2×, f)" in capsys.readouterr().out


def test_folders_of_criterion_are_two_sides(tmp_path, capsys):
    for side, scale in (("a", 1.0), ("b", 2.0)):
        for name, time in (("f", 100.0), ("g/1024", 700.0)):
            place = f"{side}/target/criterion/{name}"
            taken = {"iters": [10.0] * 8, "times": [10 * scale * time * n for n in NOISE]}
            saved(tmp_path, f"{place}/new/sample.json", taken)
            saved(tmp_path, f"{place}/new/benchmark.json", {"full_id": name})
            saved(tmp_path, f"{place}/new/estimates.json", estimates(time * scale))
            saved(tmp_path, f"{place}/base/estimates.json", estimates(time * 9))
            saved(tmp_path, f"{place}/change/estimates.json", {"mean": {"point_estimate": 0.1}})
    sides = ["--a", str(tmp_path / "a"), "--b", str(tmp_path / "b")]
    assert main([*sides, "--json", "-"]) == 2
    said = capsys.readouterr()
    found = {
        one["name"]: one["metrics"]["e2e_ns"]["ratio"] for one in json.loads(said.out)["cases"]
    }
    assert found == {name: pytest.approx(2.0, rel=1e-3) for name in ("f", "g/1024")}
    assert said.err == ""


def test_a_folder_of_text_is_read_and_other_text_is_not_told(tmp_path, capsys):
    for side, time in (("a", 500.0), ("b", 900.0)):
        saved(tmp_path, f"{side}/run.txt", go(time))
        saved(tmp_path, f"{side}/notes.txt", "nothing to measure here")
    assert main([str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert capsys.readouterr().err == ""


def test_a_text_of_no_tool_is_refused_with_the_tools(tmp_path, capsys):
    assert main([saved(tmp_path, "x.txt", "hello")]) == 1
    said = capsys.readouterr().err
    for tool in ("hipblaslt-bench", "benchdnn", "trtexec", "MIOpenDriver", "Go", "criterion"):
        assert tool in said
