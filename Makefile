# `make run` shows Penstock at work, `make check` is the loop of a minute, `make test` proves it all.
# Each sets up .venv by itself, with no more than it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Bytecode is made of what is imported, when it is: of all packages it takes as long as the rest.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
PYTEST := $(BIN)/python -m pytest
# Two processes more than there are processors, as tests wait half of their time for daemons and
# clocks. A file's tests stay together, and those that take long come first (tests/conftest.py).
TOGETHER := -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2) --dist loadfile --no-loadscope-reorder
# With a line of progress, and a report of what failed in place of pytest's pages.
TESTS := $(PYTEST) -p tests.reporting -q -rN --tb=short $(TOGETHER)
# What `make nightly` does, one after the other.
NIGHTLY := nightly-tests nightly-sanitized nightly-browser nightly-images nightly-wheels nightly-spark
# Bytecode is kept even where images say not to: without it a daemon takes twice as long to start.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install dev run up check test nightly $(NIGHTLY) lint format types coverage pages figures docs fuzz \
  wheel release clean

help:  # this list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.all  ## everything, console commands included, into .venv: 1.7 GB

dev: $(VENV)/.dev  # what `make check` needs, without Spark and browsers, into .venv: 0.3 GB

# The sizes are those on disk; Spark's packages are 0.4 GB to download.
$(VENV)/.run: WHAT := --editable '.[spark,demo]'
$(VENV)/.run: SIZE := 1 GB with Spark and its Java, two minutes
$(VENV)/.dev: WHAT := --editable . --group dev
$(VENV)/.dev: SIZE := 0.3 GB, half a minute
$(VENV)/.all: WHAT := --editable '.[spark,demo]' --group dev --group test --group interop --group release
$(VENV)/.all: SIZE := 1.7 GB with Spark, its Java and browser tests, three minutes
$(VENV)/.all: INCLUDED := $(VENV)/.run $(VENV)/.dev

# Compiled with the install where a C compiler is.
LANE := $(wildcard src/penstock/lane/*.pyx src/penstock/lane/*.pxi)

# Of pip's lines those of packages of 10 MB and more, as each begins, and of what takes time behind them.
TOLD := awk '/^pip failed$$/ { failed = 1 } \
  match($$0, /[0-9.]+ MB\)/) && substr($$0, RSTART) + 0 >= 10 { sub(/^ */, "  "); print; fflush() } \
  /^Building wheels/ { print "  building " $$NF; fflush() } \
  /^Installing collected/ { print "  unpacking " NF - 3 " packages"; fflush() } \
  END { exit failed }'

$(VENV)/.run $(VENV)/.dev $(VENV)/.all: pyproject.toml constraints.txt hatch_build.py $(LANE) | $(BIN)/python
	@echo "installing into $(VENV): up to $(SIZE) the first time"
	@{ $(subst --quiet,,$(PIP)) --constraint constraints.txt $(WHAT) \
	  || echo "pip failed"; } | $(TOLD)
	@echo "$(VENV) has $$(du -sh $(VENV) | cut -f1) now; $$($(BIN)/python -c 'from penstock import lane; print(lane.meaning())')"
	@touch $(INCLUDED) $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Penstock needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "making .venv failed: on Debian, install the package python3-venv"; exit 1; }
	@$(PIP) --upgrade 'pip>=25.1'  # the first that has --group

run: $(VENV)/.run  ## the main job: a data set through nsqlookupd, nsqd and Spark to Parquet, with proof
	@$(BIN)/penstock demo

up: $(VENV)/.run  ## nsqlookupd, nsqd, nsqadmin and the archive of every topic until Ctrl-C
	@$(BIN)/penstock up

CLASSES := build/spark-classes.jsa

$(CLASSES): $(VENV)/.all
	@echo "archiving Spark's classes, so that it starts in half the time (half a minute, once)"
	@$(BIN)/python -m tools.harness.class_archive

check: dev lint types  ## the loop of a minute: lint, types, and the tests without a process or a port
	@HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),quick) $(PYTEST) -q $(TOGETHER) tests/unit

test: install $(CLASSES)  ## the tests of every day: 8 minutes on two processors
	@$(TESTS) -m "not nightly"

# Java's client, servers and tools, for the tests that run them.
ROCKETMQ := $(CURDIR)/build/rocketmq-4.9.7

$(ROCKETMQ)/.laid: tests/interop/java/pom.xml
	@echo "fetching RocketMQ's jars into $(ROCKETMQ) (a minute, once)"
	@mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(ROCKETMQ)
	@touch $@

nightly: $(NIGHTLY)  ## all that `make test` leaves out: 30 minutes

nightly-tests: install $(CLASSES) $(ROCKETMQ)/.laid  # but the browser's: Java's, Go's and Node's clients, Spark, campaigns, pages
	@PENSTOCK_ROCKETMQ_JAVA=$(ROCKETMQ) PENSTOCK_ROCKETMQ_GO=yes $(TESTS) -m nightly --ignore=tests/browser
	@PENSTOCK_KILL_ROUNDS=15 $(TESTS) tests/crash
	@echo "once more without compiled code"
	@PENSTOCK_LANE=off $(TESTS) tests/crash tests/conformance

# A copy with a compiled module of its own. Python frees little at its end, so leaks are not looked for.
SANITIZED := build/sanitized
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=undefined

nightly-sanitized: install  # compiled code under ASAN and UBSAN: its tests, and damaged input
	@rm -rf $(SANITIZED) && mkdir -p $(SANITIZED) && cp -r src hatch_build.py $(SANITIZED)
	@cd $(SANITIZED) && CFLAGS="$(SANITIZERS)" LDFLAGS="$(SANITIZERS)" $(CURDIR)/$(BIN)/python -c \
	  "from pathlib import Path; from hatch_build import compile_lane; compile_lane(Path.cwd())"
	@LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(SANITIZED)/src \
	  $(TESTS) tests/unit/lane tests/programs/lane tests/unit/rocketmq/broker tests/fuzz -k "not linear"

nightly-browser: install  # all tests of nsqadmin's pages in Chromium
	@$(TESTS) -n 2 -m nightly tests/browser

nightly-images: install  # every step of both Dockerfiles without Docker, as root, with debootstrap: minutes
	@$(BIN)/python -m tools.deploy.images build/images

nightly-wheels: install  # the wheel installed by each Python that is here (PYTHONS="a b", WITH=spark,demo): time, size, every command
	@$(BIN)/python -m tools.release.fresh $(if $(WITH),--with=$(WITH)) $(PYTHONS)

# `make test` runs on the newest PySpark that pyproject.toml admits, this on the oldest.
nightly-spark: build/pyspark-4.2/.installed
	@build/pyspark-4.2/bin/python $(TESTS:$(BIN)/python=) tests/spark tests/unit/spark tests/programs/spark

build/pyspark-%/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -m venv build/pyspark-$*
	@echo "installing PySpark $* into build/pyspark-$* (about 1 GB)"
	@grep -v '^pyspark==' constraints.txt >build/pyspark-$*/constraints.txt
	@build/pyspark-$*/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@build/pyspark-$*/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint build/pyspark-$*/constraints.txt --editable '.[spark,demo]' \
	  --group dev --group test 'pyspark==$*.*'
	@touch $@

# A tool that always speaks is heard only if it fails.
QUIETLY = out=$$($(BIN)/$(1) 2>&1) || { echo "$$out"; exit 1; }

# The tools for nsqadmin's JavaScript, where npm is.
WEB := build/web/node_modules/.bin
WEB_TOOLS := $(if $(shell command -v npm),build/web/.installed)
WITHOUT_NPM := echo "without npm, nsqadmin's JavaScript is left out"

build/web/.installed: tools/web/package.json
	@mkdir -p build/web && cp $< build/web
	@npm install --silent --no-audit --no-fund --no-package-lock --prefix build/web
	@touch $@

lint: dev  ## style, layers, dead code, dependencies, spelling: ruff, import-linter, vulture, deptry, typos
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(call QUIETLY,lint-imports --no-logo)
	@$(BIN)/vulture
	@$(call QUIETLY,deptry src)
	@$(BIN)/typos

format: dev  ## let ruff mend style and format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: dev $(WEB_TOOLS)  ## mypy --strict, over tests as well, and what JavaScript's comments say of its types
	@$(BIN)/mypy
	@$(if $(WEB_TOOLS),$(WEB)/tsc --project tools/web,$(WITHOUT_NPM))

coverage: dev  ## the branches that unit tests take in storage, broker, node and the protocols
	@HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),quick) $(BIN)/python -m tools.coverage

# One that has an underscore may be named with a hyphen.
bench-%: install  ## a program of bench/ (ARGS="..."; bench/README.md lists them): bench-nsqd, bench-rocketmq, ...
	@$(BIN)/python bench/$(subst -,_,$*).py $(ARGS)

# bench/README.md shows all of them, README.md and docs/operate.md some.
SHOWN := equal mixed fanout pub50 pub2 mpub http tls snappy deflate

figures: install  ## measure nsqd beside a Go nsqd on PATH, and write the figures that pages show: 15 minutes
	@$(BIN)/python bench/nsqd.py --keep $(SHOWN:%=--only %) $(ARGS)
	@$(BIN)/python -m tools.pages.figures

campaign-%: install  ## an attack of docs/trust.md (ROUNDS=n, ARGS="..."): campaign-kill, campaign-power, ...
	@$(BIN)/python -m tools.campaigns $* $(ROUNDS) $(ARGS)

fuzz: install  ## every decoder against damaged input, a minute each (SECONDS=n, TARGETS="a b" for some)
	@$(PIP) --group fuzz
	@for target in $(or $(TARGETS),$$($(BIN)/python -m tools.fuzz.catalogue)); do \
	  $(BIN)/python -m tools.fuzz.run $$target $(or $(SECONDS),60) || exit 1; done

# The writers of pages, and of deploy/'s files that stand in them.
PAGES := pages.differences pages.figures pages.rocketmq_codes pages.rocketmq_access pages.client_options pages.spark_options \
  pages.client_duties pages.mqadmin_page monitoring.generated reference.pages

pages: install  ## write again what is generated: tables and pages of docs/, alert rules, dashboard, manifests
	@for each in $(PAGES); do $(BIN)/python -m tools.$$each || exit 1; done
	@if command -v helm >/dev/null; then $(BIN)/python -m tools.deploy.manifests; \
	  else echo "without helm, deploy/kubernetes stays as it is"; fi

MERMAID := build/mermaid.min.js

# Drawings in Mermaid's language are drawn in the reader's browser, by a copy in the site itself.
$(MERMAID):
	@mkdir -p build
	@cd build && npm pack --silent mermaid@11.17.2 >/dev/null \
	  && tar -xzf mermaid-11.17.2.tgz --strip-components=2 package/dist/mermaid.min.js

docs: install  ## the documentation as a site in build/docs
	@$(PIP) --constraint constraints.txt --group docs
	@$(BIN)/zensical build --strict
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(MERMAID) && cp $(MERMAID) build/docs/assets/; \
	  else echo "without npm, the drawings of the architecture stay text"; fi

wheel: install  ## wheel and sdist into dist/, the same bytes each time, what is wrong with them, and a compiled wheel
	@$(BIN)/python -m tools.release.built
	@$(BIN)/python -m hatchling build --target wheel --directory dist

release: install  ## VERSION=1.2.3: its commit and tag, and its files in dist/; pushes nothing
	@$(BIN)/python -m tools.release.audit || [ $$? = 3 ]
	@$(BIN)/python -m tools.release.cut "$(VERSION)"
	@$(MAKE) --no-print-directory wheel
	@$(BIN)/python -m tools.release.sbom dist/penstock.cdx.json

clean:  ## remove what was made here, .venv included
	rm -rf $(VENV) build dist run .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
