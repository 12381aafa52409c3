# `make demo` and `make test` need Python 3.11 or later and the Python package index, nothing else.
# A Java runtime is installed as a package when the machine has none of version 17 or later.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	&& echo $$p && break; done)
JAVA_17 := $(shell version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 \
	| sed -n 's/.*version "\([0-9]*\).*/\1/p'); [ "$${version:-0}" -ge 17 ] && echo yes)

# What Python compiles is kept: without, each of the many processes of a run compiles it again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo check fast test nightly warm fetched lint docs reproduce bench engines chaos soak static cluster dist release matrix clean
.DEFAULT_GOAL := demo

# `make demo ARGS="--rows 5000"` plays a part of the year.
demo: $(VENV)/demo.stamp
	$(BIN)/python -m examples.demo $(ARGS)

PYTEST := $(BIN)/python -m pytest -n 2 --no-loadscope-reorder

# Linters and fast tests; `make test` runs what must pass before a change lands.
check: $(VENV)/dev.stamp
	$(MAKE) --no-print-directory --jobs=2 lint fast

fast: $(VENV)/dev.stamp
	$(PYTEST) --dist worksteal -q -m 'not spark and not nightly' --hypothesis-profile fifth

test: warm
	$(PYTEST) --dist loadfile -m 'not nightly' --hypothesis-profile half --times=build/times/test.txt

# All tests with all their cases, and kernels that check the bounds of arrays. These are other kernels than
# those of queries, so they are compiled first. `.ci/nightly` also records the result.
nightly: export NUMBA_BOUNDSCHECK := 1
nightly: warm fetched
	$(PYTEST) --dist loadfile --times=build/times/nightly.txt

# Compiled kernels, and an archive of Spark's classes with which JVMs of tests start in half the time.
warm: $(VENV)/dev.stamp
	$(BIN)/sfumato warm-up
	$(BIN)/python tests/spark_classes.py

# Jars, and another PySpark of half a gigabyte, for nightly tests of servers: fetched once, kept in ~/.cache.
fetched: $(VENV)/dev.stamp
	PYTHONPATH=tests $(BIN)/python -m servers.fetched

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy

# The site, in build/site. Warnings, such as dead links, are errors.
docs: $(VENV)/dev.stamp
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet --jobs 2 docs build/site
	@echo "Open build/site/index.html"

# The papers' figures, measured again: `make reproduce`, `make reproduce ARGS="A10 --quick"`; no ARGS lists them.
reproduce: $(VENV)/dev.stamp
	$(BIN)/python -m experiments $(ARGS)

bench: $(VENV)/dev.stamp
	$(PIP) -e '.[bench]'
	$(BIN)/python -m benchmarks

# Kills drivers, JVMs and workers in mid-stream, and compares the answers with those of a quiet run.
chaos: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks.chaos --out docs/chaos.json --page docs/chaos.md

# The same jobs on other engines, each in an environment of its own in build/engines.
engines: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks.engines --page docs/research/engines.md

# Live queries for half an hour: does memory stay flat?
soak: $(VENV)/dev.stamp
	$(PIP) -e '.[bench]'
	$(BIN)/python -m benchmarks.soak --page docs/soak.md

# Static frames of millions of rows: speed, and memory of a worker.
static: $(VENV)/dev.stamp
	$(PIP) -e '.[bench]'
	$(BIN)/python -m benchmarks.static_frames --out docs/benchmarks/alone --page docs/static-frames.md

# Wheel and source distribution in dist/, tried in fresh environments; publishes nothing.
dist: $(VENV)/dist.stamp
	$(BIN)/python packaging/dist.py

# make release VERSION=1.2.3 (TESTED=1 trusts the last green .ci/run and .ci/nightly): commit and tag only.
release: $(VENV)/dist.stamp
	$(BIN)/python packaging/release.py $(VERSION) $(if $(TESTED),--tested)

# Every Python with every PySpark, each in a fresh environment; docs/versions.md. Some minutes each.
matrix: $(VENV)/dist.stamp
	$(BIN)/python packaging/matrix.py $(ONLY)

# A standalone cluster of separate processes: README's example, a killed worker, skew, a hot key.
cluster: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks.cluster check

clean:
	rm -rf $(VENV) build dist src/*.egg-info spark-warehouse metastore_db derby.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests experiments benchmarks -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; found none on the PATH"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Without --no-compile, pip compiles every module of the packages, ten seconds longer than those of the demo take.
# Kernels need a few packages only: they are compiled while Spark, the largest, is installed.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
DEPENDENCIES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")
$(VENV)/demo.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -c '$(DEPENDENCIES)' >$(VENV)/dependencies.txt
	$(PIP) --no-compile -r $(VENV)/dependencies.txt
	for query in order join; do PYTHONPATH=src $(BIN)/python -m examples.demo_kernels $$query & done; \
	$(PIP) --no-compile -e '.[demo$(if $(JAVA_17),,$(comma)java)]' && wait
	touch $@

$(VENV)/dev.stamp: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/demo.stamp

$(VENV)/dist.stamp: $(VENV)/dev.stamp
	$(PIP) -e '.[dist]'
	touch $@

comma := ,
