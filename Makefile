# Two commands for a fresh machine with Python 3.10+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TORCH ?= torch
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test

.PHONY: help demo test test-torch lint format clean

help:
	@echo "make demo    set up, run the demo on this machine, leave a report in demo-report/"
	@echo "make test    set up, check style and types, run the tests"
	@echo "make test-torch  the tests that need PyTorch (CPU): export, runtime, metrics; in .venv-torch"
	@echo "make lint    ruff and mypy"
	@echo "make format  ruff format"

demo: $(STAMP)
	$(BIN)/trtbench demo -o demo-report

test: $(TEST_STAMP) lint
	@# Tests that kill and time processes share two cores here: what fails beside others gets one try alone.
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup || \
	  $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

test-torch: $(TEST_STAMP) .venv-torch/.installed
	TRTBENCH_TEST_TORCH_PYTHON=$(CURDIR)/.venv-torch/bin/python $(BIN)/python -m pytest -q tests/build/test_export.py tests/runtimes/test_torch_runtime.py tests/tasks/test_torchmetrics.py

.venv-torch/.installed:
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check numpy msgspec onnx onnxscript packaging
	@# Without their requirements: those name torch without a version, and would replace what TORCH asked for.
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check --no-deps torchmetrics lightning-utilities
	@touch $@

lint: $(TEST_STAMP)
	$(BIN)/ruff check src tests tools benchmarks
	$(BIN)/ruff format --check src tests tools benchmarks
	$(BIN)/mypy

format: $(TEST_STAMP)
	$(BIN)/ruff format src tests tools benchmarks
	$(BIN)/ruff check --fix src tests tools benchmarks

clean:
	rm -rf $(VENV) demo-report build dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 10) else "trtbench needs Python 3.10 or later, and %s is %d.%d; try: make PYTHON=python3.12 ..." % (sys.executable, v[0], v[1]))'
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(TEST_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(STAMP)
