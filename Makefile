# make demo   the quick start, from raw text to report (EXTRA=gpu for faiss-gpu and a CUDA torch)
# make test   format, lint, types, import rules and every test
# make quick  the same with the quick tests only
# make studies-check  the papers' full-size recipes on small files
# make ui     one page with links to the sweeps' pages and MLflow's;  make prefect-ui  Prefect's pages over the flows
# make docs   the documentation as a site, in site/
# make bench  the benchmarks, with the packages that they compare with; WINNOW_BENCH_SIZE=0.1 makes them smaller

PYTHON ?= python3
EXTRA ?= cpu
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PREFECT_HOME := $(CURDIR)/.prefect
export DO_NOT_TRACK := true
export DVC_NO_ANALYTICS := 1
export MLFLOW_DISABLE_TELEMETRY := true
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export HF_HUB_DISABLE_TELEMETRY := 1

.PHONY: demo test quick studies-check check format ui prefect-ui docs bench

demo: .venv/installed-$(EXTRA)
	python -m flows.demo

# Three processes of one thread each, because some tests wait for servers; those of a file stay together, in the order of the files.
TESTS := OMP_NUM_THREADS=1 pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

test: check
	$(TESTS)

quick: check
	$(TESTS) -m "not slow"

# The papers' full-size recipes on small files, each in a process.
studies-check: .venv/installed-$(EXTRA)
	OMP_NUM_THREADS=1 pytest --numprocesses 2 --dist load tests/flows/test_full_size.py

check: .venv/installed-$(EXTRA)
	ruff format --check .
	ruff check .
	mypy
	lint-imports
	python -m flows.compose --check

format: .venv/installed-$(EXTRA)
	ruff format .
	ruff check --fix .

ui: .venv/installed-$(EXTRA)
	python -m flows.ui

prefect-ui: .venv/installed-$(EXTRA)
	prefect server start --host 127.0.0.1 --port 4200

docs: .venv/installed-$(EXTRA)
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

bench: .venv/installed-$(EXTRA)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRA),cluster,dev,bench]"
	for name in $(basename $(notdir $(wildcard bench/bench_*.py))); do python -m bench.$$name || exit 1; done

.venv/installed-$(EXTRA): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Winnow needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[$(EXTRA),cluster,dev]"
	@$(BIN)/python -m compileall -q -j 0 -x '/tests/' .venv/lib > /dev/null || true  # on all cores; pip uses one
	touch $@
