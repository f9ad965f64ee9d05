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
# Bytecode is kept even where images say not to: without it a daemon takes twice as long to start.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*  \#\# .*/\1/p' $(MAKEFILE_LIST))

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.all  ## everything, console commands included, into .venv: 1.7 GB

dev: $(VENV)/.dev  ## what `make check` needs, without Spark and browsers, into .venv: 0.3 GB

# The sizes are those on disk; Spark's packages are 0.4 GB to download.
$(VENV)/.run: EXTRAS := spark,demo
$(VENV)/.run: SIZE := 1 GB with Spark and its Java, two minutes
$(VENV)/.dev: EXTRAS := dev
$(VENV)/.dev: SIZE := 0.3 GB, half a minute
$(VENV)/.all: EXTRAS := spark,demo,dev,test,interop,release
$(VENV)/.all: SIZE := 1.7 GB with Spark, its Java and browser tests, three minutes
$(VENV)/.all: INCLUDED := $(VENV)/.run $(VENV)/.dev

# Of pip's lines those of packages of 10 MB and more, as each begins, and of what takes time behind them.
TOLD := awk '/^pip failed$$/ { failed = 1 } \
  match($$0, /[0-9.]+ MB\)/) && substr($$0, RSTART) + 0 >= 10 { sub(/^ */, "  "); print; fflush() } \
  /^Building wheels/ { print "  building " $$NF; fflush() } \
  /^Installing collected/ { print "  unpacking " NF - 3 " packages"; fflush() } \
  END { exit failed }'

$(VENV)/.run $(VENV)/.dev $(VENV)/.all: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV): up to $(SIZE) the first time"
	@{ $(subst --quiet,,$(PIP)) --constraint constraints.txt --editable '.[$(EXTRAS)]' \
	  || echo "pip failed"; } | $(TOLD)
	@echo "$(VENV) has $$(du -sh $(VENV) | cut -f1) now"
	@touch $(INCLUDED) $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Penstock needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "making .venv failed: on Debian, install the package python3-venv"; exit 1; }
	@$(PIP) --upgrade pip

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

nightly: nightly-tests browser images-tried wheels spark-versions  ## all that `make test` leaves out: 30 minutes

nightly-tests: install $(CLASSES) $(ROCKETMQ)/.laid  ## its tests but the browser's: clients in Java, Go and Node, Spark, campaigns, pages
	@PENSTOCK_ROCKETMQ_JAVA=$(ROCKETMQ) PENSTOCK_ROCKETMQ_GO=yes $(TESTS) -m nightly --ignore=tests/browser
	@PENSTOCK_KILL_ROUNDS=15 $(TESTS) tests/crash

browser: install  ## all tests of nsqadmin's pages in Chromium
	@$(TESTS) -n 2 -m nightly tests/browser

coverage: dev  ## the branches that unit tests take in storage, broker, node and the protocols
	@HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),quick) $(BIN)/python -m tools.coverage

# `make test` runs on the newest PySpark that pyproject.toml admits, this on the oldest.
spark-versions: build/pyspark-4.2/.installed  ## tests of the Spark side on PySpark 4.2, in a venv of its own
	@build/pyspark-4.2/bin/python $(TESTS:$(BIN)/python=) tests/spark tests/unit/spark tests/programs/spark

build/pyspark-%/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -m venv build/pyspark-$*
	@echo "installing PySpark $* into build/pyspark-$* (about 1 GB)"
	@grep -v '^pyspark==' constraints.txt >build/pyspark-$*/constraints.txt
	@build/pyspark-$*/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint build/pyspark-$*/constraints.txt --editable '.[spark,demo,dev,test]' 'pyspark==$*.*'
	@touch $@

# A tool that always speaks is heard only if it fails.
QUIETLY = out=$$($(BIN)/$(1) 2>&1) || { echo "$$out"; exit 1; }

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

types: dev  ## mypy --strict, over tests as well
	@$(BIN)/mypy

ci: install lint types coverage test  ## what CI runs

bench: install  ## nsqd's speed, beside a Go nsqd when one is on PATH
	@$(BIN)/python bench/nsqd.py

backlog: install  ## a backlog of 10 million messages: speed in and out, memory
	@$(BIN)/python bench/nsqd.py --backlog 10000000

bench-nodes: install  ## 2 nsqds (NODES=n) with one nsqlookupd, beside a Go nsqd when one is on PATH (or GO=)
	@$(BIN)/python bench/nodes.py --nodes $(or $(NODES),2) $(if $(GO),--go-nsqd $(GO))

bench-copies: install  ## a node whose OK waits for a copy, beside one that is copied and one that is not
	@$(BIN)/python bench/copies.py

bench-copies-backlog: install  ## a new copy of 10 million messages beside publishes, and a promotion with that backlog
	@$(BIN)/python bench/copies_backlog.py

bench-archive: install  ## the archive pipeline: rows/s from log to Parquet
	@$(BIN)/python bench/archive.py

bench-arrow: install  ## penstock.arrow.read: rows/s of one process
	@$(BIN)/python bench/arrow_read.py

bench-rocketmq: install  ## mqbroker beside RocketMQ's (CLIENTS=, SERVER=: folders, see bench/README.md)
	@$(BIN)/python bench/rocketmq.py --java-bench $(CLIENTS) $(if $(SERVER),--java-server $(SERVER))

bench-clients: install  ## our client library beside pynsq, gnsq and ansq (GO=: a Go nsqd as well)
	@$(BIN)/python bench/client_libraries.py $(if $(GO),--go-nsqd $(GO))

bench-rocketmq-clients: install  ## our RocketMQ client beside PyPI's C++ one (JAVA=: a folder of jars, Java's as well)
	@$(BIN)/python bench/rocketmq_clients.py $(if $(JAVA),--java $(JAVA))

bench-tools: install  ## our nsq_to_file, nsq_to_nsq and to_nsq (GO=: a folder with Go's beside them)
	@$(BIN)/python bench/nsq_tools.py $(if $(GO),--go $(GO))

bench-admin: install  ## nsqadmin and its pages over 1,000 topics, 10 channels each, on 10 nodes
	@$(BIN)/python bench/admin_pages.py

crash: install  ## kill nsqd, mqbroker and nsq_to_file under load, 300 rounds (ROUNDS=n for more)
	@PENSTOCK_KILL_ROUNDS=$(or $(ROUNDS),300) $(PYTEST) tests/crash -s

# Campaigns: what docs/trust.md shows. Each prints how far it is, and a row of the table at its end.
CAMPAIGN = @$(BIN)/python -m tools.campaigns

campaign-kill: install  ## kill -9 over everything at once, 1,000 times (ROUNDS=n, DURABILITY=fsync)
	$(CAMPAIGN) kill $(or $(ROUNDS),1000) $(if $(DURABILITY),--durability=$(DURABILITY))

campaign-power: install  ## 200 power cuts on an ext4 image, as root (ROUNDS=n; DURABILITY=write loses)
	$(CAMPAIGN) power $(or $(ROUNDS),200) $(if $(DURABILITY),--durability=$(DURABILITY))

campaign-faults: install  ## each write, sync, rename and truncate fails, or is the last (ROUNDS=n)
	$(CAMPAIGN) faults $(or $(ROUNDS),1000)

campaign-damage: install  ## every file of a data path, spoiled in every way (BITS=n flips a file)
	$(CAMPAIGN) damage $(or $(BITS),20)

campaign-full: install  ## a disk that is full and has room again, 100 times, as root (ROUNDS=n)
	$(CAMPAIGN) full $(or $(ROUNDS),100)

campaign-clocks: install  ## a clock that jumps by days, 100 times, with libfaketime (ROUNDS=n)
	$(CAMPAIGN) clocks $(or $(ROUNDS),100)

campaign-soak: install  ## two hours of churn: memory, descriptors, threads, tasks (MINUTES=n)
	$(CAMPAIGN) soak $(or $(MINUTES),120)

campaign-clients: install  ## RocketMQ's client, its servers killed, members that come, go and die, 60 faults (ROUNDS=n, JAVA=: a folder of jars, for servers and a member; JAVA_MEMBER=: for a member alone)
	$(CAMPAIGN) clients $(or $(ROUNDS),60) $(if $(JAVA),--java=$(JAVA)) $(if $(JAVA_MEMBER),--java-member=$(JAVA_MEMBER))

campaign-spark: install  ## kill driver, executors, sources and sinks of Spark's queries, 20 times each (ROUNDS=n)
	$(CAMPAIGN) spark $(or $(ROUNDS),120)

campaign-channel: install  ## kill driver, executors and the source of a query that reads a channel, 20 times each (ROUNDS=n)
	$(CAMPAIGN) spark $(or $(ROUNDS),80) --queries=consumed

campaign-copies: install  ## a primary and its follower: killed, cut off, stopped, without their disk; promoted, 200 faults, as root (ROUNDS=n, DURABILITY=fsync, NODES=3: two followers, OF=mqbroker: a master and its slaves)
	$(CAMPAIGN) copies $(or $(ROUNDS),200) $(if $(DURABILITY),--durability=$(DURABILITY)) $(if $(OF),--of=$(OF)) $(if $(NODES),--nodes=$(NODES))

sim: dev  ## the broker against its model, long
	@PENSTOCK_SIM=nightly $(PYTEST) tests/sim -q

fuzz: install  ## every decoder against damaged input, a minute each (SECONDS=n for more, TARGETS="a b" for some)
	@$(PIP) 'atheris>=3'
	@for target in $(or $(TARGETS),$$($(BIN)/python -m tools.fuzz.catalogue)); do \
	  $(BIN)/python -m tools.fuzz.run $$target $(or $(SECONDS),60) || exit 1; done

decoders: dev  ## the protocol's decoders against random streams, long
	@HYPOTHESIS_PROFILE=nightly $(PYTEST) tests/unit/nsq/protocol -q

robustness: install  ## nsqd in bad company: stalled consumers, idle and silent crowds, bombs
	@$(BIN)/python bench/robustness.py

screenshots: install  ## nsqadmin's pages over a cluster with traffic, into build/screenshots
	@$(BIN)/python -m tools.browser.screenshots

pictures: install  ## the README's pictures: nsqadmin and penstock top over a cluster with traffic
	@$(BIN)/python -m tools.browser.pictures

notebooks: install  ## the notebooks of examples/ over a node; stores what their cells show
	@$(BIN)/python -m tools.pages.notebooks

MERMAID := build/mermaid.min.js

# Drawings in Mermaid's language are drawn in the reader's browser, by a copy in the site itself.
$(MERMAID):
	@mkdir -p build
	@cd build && npm pack --silent mermaid@11.17.2 >/dev/null \
	  && tar -xzf mermaid-11.17.2.tgz --strip-components=2 package/dist/mermaid.min.js

docs: install  ## the documentation as a site in build/docs
	@$(PIP) --constraint constraints.txt 'zensical>=0.0.73'
	@$(BIN)/zensical build --strict
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(MERMAID) && cp $(MERMAID) build/docs/assets/; \
	  else echo "without npm, the drawings of the architecture stay text"; fi

replay: install  ## what real NSQ programs were seen to do, played against ours
	@$(BIN)/python -m tools.replay.replay_nsqd
	@$(BIN)/python -m tools.replay.replay_lookupd

differences: install  ## write into docs/nsqd.md how nsqd differs from Go's
	@$(BIN)/python -m tools.pages.differences

codes: install  ## write RocketMQ's codes and what covers them, and into docs/security.md what each needs
	@$(BIN)/python -m tools.pages.rocketmq_codes
	@$(BIN)/python -m tools.pages.rocketmq_access

client-options: install  ## write the clients' options into docs/client.md and docs/rocketmq-client.md
	@$(BIN)/python -m tools.pages.client_options

spark-options: install  ## write the options of Spark's source into docs/spark.md
	@$(BIN)/python -m tools.pages.spark_options

client-guide: install  ## write docs/client-guide.md: what a client of NSQ owes, and what shows it
	@$(BIN)/python -m tools.pages.client_duties

manifests: dev  ## write deploy/kubernetes from the chart, with helm
	@$(BIN)/python -m tools.deploy.manifests

images-tried: install  ## follow every step of both Dockerfiles without Docker, as root, with debootstrap: minutes
	@$(BIN)/python -m tools.deploy.images build/images

mqadmin-page: install  ## write mqadmin's sub-commands into docs/mqadmin.md
	@$(BIN)/python -m tools.pages.mqadmin_page

mqadmin-samples: install  ## record what Java's mqadmin prints (JAVA=: a folder with the jars of 4.9.7)
	@PENSTOCK_ROCKETMQ_JAVA=$(JAVA) $(BIN)/python -m tools.replay.record_mqadmin

monitoring: dev  ## write docs/metrics.md, the alert rules and the dashboard from the list of metrics
	@$(BIN)/python -m tools.monitoring.generated

audit: install  ## known vulnerabilities of what constraints.txt pins; says so where nobody can be asked
	@$(BIN)/python -m tools.release.audit

wheel: install  ## wheel and sdist into dist/, the same bytes each time, and what is wrong with them
	@$(BIN)/python -m tools.release.built

sbom: install  ## the list of all that comes with Penstock, in CycloneDX's form, into dist/
	@mkdir -p dist
	@$(BIN)/python -m tools.release.sbom dist/penstock.cdx.json

wheels: install  ## the wheel installed by each Python that is here (PYTHONS="a b", WITH=spark,demo): time, size, every command
	@$(BIN)/python -m tools.release.fresh $(if $(WITH),--with=$(WITH)) $(PYTHONS)

release: install  ## VERSION=1.2.3: its commit and tag, and its files in dist/; pushes nothing
	@$(BIN)/python -m tools.release.audit || [ $$? = 3 ]
	@$(BIN)/python -m tools.release.cut "$(VERSION)"
	@$(MAKE) --no-print-directory wheel sbom

reference: dev  ## write docs/reference: flags, properties and HTTP endpoints of every program
	@$(BIN)/python -m tools.reference.pages

clean:  ## remove what was made here, .venv included
	rm -rf $(VENV) build dist run .mypy_cache .ruff_cache .pytest_cache .hypothesis
