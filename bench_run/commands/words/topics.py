"""The help text of every flag, by topic. Text only: docopt reads it, and `--help` shows it.

Each flag is in exactly one topic. A command's ``USAGE`` is made of topics, or of `entries` from
them, so a flag is described once.
"""

from __future__ import annotations

INPUT = """\
Graphs:
  --op SPEC             make graphs from operation names, shapes and types;
                        also 'family:activations' or 'all' (graphs/README.md)
  --miopen-driver LINE  a MIOpenDriver command line, or a file of them (a log
                        will do)
  --shapes SET          shapes where --op names none: small, common, large,
                        skewed or all (default common)
  --direction D         gradients for --op: fwd, bwd or both
  --scale-batch N       reduce the batch of every graph to at most N
  --sdpa-scale S        scale of attention graphs that store none: one, or
                        rsqrt for 1/sqrt(head size); without it the engine
                        hipdnn refuses them
  --save-graphs DIR     write the graphs of --op and --miopen-driver to DIR
  --save-suite FILE     write all graphs as a suite (.toml) with how often each
                        occurs, equal ones once: for folders that
                        HIPDNN_LOG_GRAPH_DIR filled, and for logs
  --chain               run each pipeline (.toml) as one case: its graphs one
                        after another, handing their results on
  --seams               run each graph of a pipeline alone, and each pair of
                        neighbours as one case; with --chain the whole as well,
                        in the same rounds
  --rerun-from FILE     only the cases that a JSON report of bench-compare calls
                        slower or unclear
  --ray ADDRESS         measure on all GPUs of a Ray cluster ('auto' for the one
                        of this host, or 'local' for one of just this host); a
                        graph stays on one GPU. Needs dnn-bench[ray]
  --shard I/N           only share I of N, from 1/N to N/N; `bench-run merge`
                        makes one document of all
  --tuned FILE          the winners of a record of bench-run tune in place of
                        the defaults; where graph, libraries, driver or device
                        are others, the default runs and its case says why
  --tuned-mismatch M    default, or error: run nothing where an entry does not
                        fit (default default)
  --dry-run             list the cases and stop

Input data:
  --init RULE           how inputs are filled:
                        [NAME=]normal|uniform|integers|constant:V|file:PATH
  --seed N              seed of the inputs and of the order of cases (default 0)
"""

ENGINES = """\
Engines:
  -e, --engine SPEC     name[:id][+option][@plugin path]; give it again for more
                        engines, which are measured in turn (default auto)
  --a SPEC              with --b: compare two engines in one run; the outputs of
                        B are validated against those of A
  --b SPEC              the second engine
  --AId ID              instead of --a: engine id of a hipDNN plugin
  --BId ID              instead of --b: engine id of a hipDNN plugin
  --APath P             plugin path for --AId
  --BPath P             plugin path for --BId
  --device N            index of the accelerator, or several as in 0,2, or all
                        (default 0); several are measured in turn, because they
                        share power, host and bus. For one engine only:
                        ENGINE+device=N
  --threads N           hold engines on the CPU to N threads on N cores; for one
                        engine only: ENGINE+threads=N
  --parallel HOW        with several devices: prepare (side by side, measured in
                        turn: the default) or measure (all at once; round 1 of
                        each case, and every fifth after it, alone, to see
                        whether that changes its time: then it stays alone)
  --require-idle        refuse a device on which other processes are
  --knob KEY=VALUE      set a tuning knob of the engine; for one engine only:
                        ENGINE+knob:KEY=VALUE
  --oracle              beside each engine the same one after its own search for
                        the fastest way, and how much the default leaves on
                        the table (hipdnn:ID or hipdnn:all)
  --cache-dir DIR       read and keep the libraries' caches in DIR; without it
                        each run starts with empty caches
  --warm-caches         use the caches that the libraries use by themselves
  --math MODE           float32 arithmetic: fp32 (strict), tf32 or fast
                        (default fp32)

hipDNN plugins:
  --plugin-path DIR     folder of engine plugins
  --plugin-mode MODE    absolute: only these plugins; additive: also those that
                        hipDNN finds by itself (default absolute)
  --hipdnn-prefix DIR   installation prefix in which to look for hipdnn_frontend
"""

MEASURE = """\
Sampling:
  --warmup N            untimed iterations at the start of a round (default 10)
  --iters N             timed iterations per case, over all rounds (default 100)
  --rounds N            independent rounds, each in a fresh process and in a new
                        order (default 5)
  --min-time S          continue until a case has S seconds of samples, device
                        and end-to-end samples each
  --max-time S          stop a case at S seconds of samples, each as above, on
                        the processor with what --cache puts before them, or
                        'none' for no limit (default 10)
  --precision P         add rounds until the median is known to P, such as 1%
  --until decided       add rounds until each pair of engines (--a/--b, or the
                        first --engine and each other one) is faster, slower or
                        the same, as bench-compare judges
  --against FILE        with --until decided: judge against this result document
                        of an earlier run instead (also a folder or a glob)
  --threshold T         with --until decided: smallest change of interest
                        (default 1%)
  --max-rounds N        upper limit of rounds for --precision and --until
                        (default 30)
  --fresh HOW           how a round starts its processes: fork, from a template
                        that has imported the GPU library (where that is safe),
                        or exec, each from nothing (default fork)
  --prepare N           processes that prepare rounds at the same time on a GPU,
                        while one measures (default: as cores and memory allow)
  --executions N        executions per sample (default 1), for short kernels
  --timeout S           kill a worker that is silent for S seconds (default 300)
  --build-timeout S     limit for building a plan (default 60 for each variant
                        of ENGINE:all, else as --timeout)

Conditions:
  --timer T             clock of device times: auto, events, cupti or host
                        (default auto)
  --cache C             device caches before each iteration: hot, cold, rotate,
                        weights-cold, which rotates weights only, or pass (with
                        --seams), as a pass of the pipeline leaves them (default
                        hot)
  --duty D              cool (pauses between blocks of iterations) or sustained
                        (default cool)
  --replay              capture the work once as a device graph and replay it

Separate passes, after the samples:
  --energy              joules per iteration, over one second in each round
  --trace FILE          Chrome trace of a few iterations
  --counters SET        hardware counters
"""

VALIDATE = """\
Validation:
  --reference R         what outputs are compared with: auto, numpy, torch,
                        golden, none or an engine (default auto)
  --tolerance T         table of allowed errors: default or hipdnn
  --rtol X              allowed relative error, for every output
  --atol X              allowed absolute error, for every output
  --golden DIR          folder with golden tensors
  --write-golden DIR    write inputs and reference outputs as golden tensors;
                        'hipdnn:DIR' writes hipDNN's own file format
  --reference-cache D   folder that keeps float64 references across runs, or
                        'off' (default ~/.cache/bench-run/references)
  --mismatches N        worst mismatches to record per output (default 5)
  --check-budget S      seconds per round for validating timed iterations
                        (default 0.2)
  --save-outputs DIR    write the outputs of the first execution
"""

OUTPUT = """\
Output files ('-' writes to stdout, in place of the table):
  -o, --output FILE     result document (.json, .json.gz, .json.zst); '-' when
                        all is measured: nothing is kept of a run that is killed
  --csv FILE            one row per case
  --csv-samples FILE    one row per iteration
  --markdown FILE       table in Markdown

The run:
  --label NAME          name of this run; documents with the same label are
                        repeats of one measurement
  --tag KEY=VALUE       metadata to store
  --resume              continue the unfinished run of the output file
  --config FILE         read any of these settings from TOML; flags win
  -q, --quiet           no progress and no table
  -v, --verbose         all statistics of every case
  -h, --help            show help
  --version             show the version
"""

TOPICS = {
    "input": INPUT,
    "engines": ENGINES,
    "measure": MEASURE,
    "validate": VALIDATE,
    "output": OUTPUT,
}
"""Topic to its text, in the order of `bench-run help all`."""


def flags_of(text: str) -> list[str]:
    """The long flags that a help text describes, in order."""
    words = [line.split() for line in text.splitlines() if line.startswith("  -")]
    return [next(word for word in line if word.startswith("--")) for line in words]


def entries(*flags: str) -> str:
    """The lines that describe these flags, in this order."""
    described: dict[str, str] = {}
    for text in TOPICS.values():
        name = ""
        for line in text.splitlines(keepends=True):
            if line.startswith("  -"):
                (name,) = flags_of(line)
                described[name] = line
            elif name and line.startswith("     "):
                described[name] += line
            else:
                name = ""
    return "".join(described[flag] for flag in flags)
