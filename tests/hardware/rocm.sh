#!/bin/sh
# From ROCm's PyTorch wheels to hipDNN's bindings, its plugins and a first verdict.
#
# NOT YET RUN ON HARDWARE: written after the documents of TheRock (wheels by family of GPUs) and of
# hipDNN (the bindings are built against the wheels' libraries). If a step fails, the command above
# it is the one to look at; the report is written in any case.
#
#   sh tests/hardware/rocm.sh INDEX [FOLDER]
#
# INDEX   URL of ROCm's wheels for your family of GPUs: RELEASES.md of github.com/ROCm/TheRock
# FOLDER  where everything goes (default: rocm-first-verdict)
#
# With INDEX "-" nothing is installed: the bindings are those that this Python finds. ONLY="relu 64K"
# shortens the table of the clock to one kernel.
set -eu
if [ $# -lt 1 ]; then
    sed -n '2,/^set/{/^set/!p}' "$0" >&2
    exit 1
fi
index=$1
folder=${2:-rocm-first-verdict}
root=$(cd "$(dirname "$0")/../.." && pwd)
python=python3
mkdir -p "$folder"
cd "$folder"

if [ "$index" != - ]; then
    echo "1/5 PyTorch, ROCm's libraries and headers" >&2
    python3.12 -m venv venv
    python=$PWD/venv/bin/python
    "$python" -m pip install --index-url "$index" torch 'rocm[libraries,devel]'
    "$PWD/venv/bin/rocm-sdk" init
    "$python" -m pip install "$root" cmake ninja 'nanobind>=2.4'
    site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
    libraries=$(echo "$site"/_rocm_sdk_libraries*)

    echo "2/5 hipDNN's bindings" >&2
    [ -d rocm-libraries ] || git clone --depth 1 --filter=blob:none --sparse \
        https://github.com/ROCm/rocm-libraries
    git -C rocm-libraries sparse-checkout set projects/hipdnn/python
    source=$PWD/rocm-libraries/projects/hipdnn/python
    "$python" -m cmake -S "$source/frontend_bindings" -B build -G Ninja \
        -DCMAKE_PREFIX_PATH="$libraries;$site/_rocm_sdk_devel" \
        -DPython_EXECUTABLE="$python" -DCMAKE_MAKE_PROGRAM="$PWD/venv/bin/ninja"
    "$python" -m cmake --build build
    cp -r "$source/frontend_wheel_package/src/hipdnn_frontend" "$site"
    cp build/hipdnn_frontend_python*.so "$site/hipdnn_frontend"
    export LD_LIBRARY_PATH="$libraries/lib:${LD_LIBRARY_PATH:-}"
    ls "$libraries/lib/hipdnn_plugins/engines" >&2 ||
        echo "no plugins there: set HIPDNN_PLUGIN_DIR" >&2
fi

echo "3/5 is the clock right? A row must not change with the iterations: 20, 100, 1000, by time" >&2
(cd "$root" && "$python" -m tests.benchmarks.gpu_truth --engine=hipdnn ${ONLY:+"--only=$ONLY"} levels)

echo "4/5 the report: $folder/hipdnn.tar.gz" >&2
"$python" -m bench_run doctor --engine hipdnn --report hipdnn.tar.gz --force

echo "5/5 a first verdict: the same build twice, so nothing should have changed" >&2
for run in a b; do
    "$python" -m bench_run suite:smoke --engine hipdnn -o "$run.json" --force || [ $? -ne 1 ]
done
"$python" -m bench_compare a.json b.json
