# Two commands for a fresh machine with Python 3.10+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test
ALL := .venv-all
TORCH_VENV := .venv-torch
DOCS := .venv-docs
# One version for all: what the tests expect of exports and messages is this version's.
TORCH ?= torch==2.13.0
TORCH_PYTHON ?= $(firstword $(shell python3.11 -c 'print("python3.11")' 2>/dev/null) $(PYTHON))
# Bytecode is made of what is imported, not of all that is installed, and is kept wherever the
# environment says not to: the tests start some thousand processes, and each would compile anew.
PIP := -m pip install --quiet --disable-pip-version-check --no-compile
export PYTHONDONTWRITEBYTECODE :=
MUTATIONS ?= 20000
PYTEST := -m pytest -q -n 2 --dist loadgroup

.PHONY: help demo docs docs-outputs test test-all test-torch lint format clean release-check

help:
	@echo "make demo      set up, run the demo on this machine, leave a report in demo-report/"
	@echo "make docs      write the documentation site to build/docs; a warning or a lost link fails"
	@echo "make docs-outputs  run the tutorial and the notebook, and put what they print into them"
	@echo "make test      set up, check style and types, run the tests (ten minutes at most)"
	@echo "make test-all  the same, and the tests with real parts: Ray, sshd, PostgreSQL, S3,"
	@echo "               Parquet, TensorRT-RTX, PyTorch, LaTeX, Chromium; installs what is missing"
	@echo "make test-torch  only the tests that need PyTorch (CPU), in .venv-torch"
	@echo "make release-check  build wheel and sdist, and try them in clean environments"
	@echo "make lint      ruff and mypy"
	@echo "make format    ruff format"

demo: $(STAMP)
	$(BIN)/trtbench demo -o demo-report

docs: $(DOCS)/.installed
	$(DOCS)/bin/python -m sphinx -q -n -W --keep-going -b html -d build/doctrees docs build/docs
	$(DOCS)/bin/python tools/check_links.py build/docs
	@echo "open build/docs/index.html"

docs-outputs: $(DOCS)/.installed $(TORCH_VENV)/.installed
	$(DOCS)/bin/python tools/run_docs.py --write --link torch-env=$(TORCH_VENV) docs/tutorial.md docs/notebook.ipynb

test: $(TEST_STAMP) lint
	TRTBENCH_TEST_REAL=0 $(BIN)/python $(PYTEST)

test-all: test docs $(ALL)/.installed $(TORCH_VENV)/.installed
	tools/install_parts
	$(ALL)/bin/python $(PYTEST) -m real
	TRTBENCH_MUTATIONS=$(MUTATIONS) $(BIN)/python -m pytest -q --timeout 7200 -o faulthandler_timeout=7300 tests/mutation

test-torch: $(TEST_STAMP) $(TORCH_VENV)/.installed
	$(BIN)/python -m pytest -q tests/build/test_export.py tests/runtimes/test_torch_runtime.py

$(ALL)/.installed: pyproject.toml
	$(PYTHON) -m venv $(ALL)
	$(ALL)/bin/python $(PIP) -e '.[test,parts]'
	@touch $@

$(DOCS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(PIP) -e '.[docs]'
	@touch $@

$(TORCH_VENV)/.installed: Makefile
	$(TORCH_PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python $(PIP) '$(TORCH)'
	$(TORCH_VENV)/bin/python $(PIP) numpy msgspec onnx onnxscript packaging pillow pytest SQLAlchemy click rich PyYAML
	@touch $@

release-check: $(TEST_STAMP)
	$(BIN)/python tools/release_check.py

lint: $(TEST_STAMP)
	$(BIN)/ruff check src tests tools benchmarks
	$(BIN)/ruff format --check src tests tools benchmarks
	$(BIN)/mypy
	$(BIN)/mypy benchmarks

format: $(TEST_STAMP)
	$(BIN)/ruff format src tests tools benchmarks
	$(BIN)/ruff check --fix src tests tools benchmarks

clean:
	rm -rf $(VENV) $(ALL) $(TORCH_VENV) $(DOCS) demo-report build dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 10) else "trtbench needs Python 3.10 or later, and %s is %d.%d; try: make PYTHON=python3.12 ..." % (sys.executable, v[0], v[1]))'
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python $(PIP) -e '.[all]'
	@touch $@

$(TEST_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python $(PIP) -e '.[test]'
	@touch $@ $(STAMP)
