# Every target sets up what it needs by itself. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# What `make test` compiles: optimised, with debug assertions, quicker to build than a release.
TEST_PROFILE ?= dev-opt
# Histories between two demos of `make soak`.
SOAK_SEEDS ?= 50000
SOAK_COPIES ?= 2000000
SOAK_FAILOVERS ?= 200
# Minutes of a group on a busy machine, before the turns of it.
SOAK_STEADY ?= 120
# Processes that share the tests of Python, most of which wait.
PYTEST_WORKERS ?= 6
# Messages that are pending in `make bench-scale`.
SCALE ?= 100000000
# The driver and the adapters of `make bench-peers`, which are no part of this project.
PEERS ?= ../shared/peers
# Kills, and power cuts of image files, between two of them.
SOAK_KILLS ?= 320
SOAK_POWER_CUTS ?= 1500
# Power cuts on a disk that forgets, and images of a disk, between two of them.
SOAK_CUTS ?= 500
SOAK_STATES ?= 5000000
# In which ways each call of the file system fails: all of them for half an hour, or as in CI for three minutes with SOAK_WAYS=.
SOAK_WAYS ?= --all
# How often as many orders of threads as CI tries.
SOAK_MODELS ?= 25

# All that is built with that profile has one set of features, so that nothing is compiled twice. The release has none of them.
TESTED := --locked --workspace --profile $(TEST_PROFILE) --features delaymq-binding/planted

export CARGO_BUILD_JOBS ?= 2
export MATURIN_NO_INSTALL_RUST := 1
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1

RUST_SOURCES := $(shell find rust benches -name '*.rs' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock
PYTHON_SOURCES := $(shell find python -name '*.py' -o -name '*.pyi' -o -name py.typed 2>/dev/null)
WHEEL_SOURCES := $(RUST_SOURCES) $(PYTHON_SOURCES) pyproject.toml README.md LICENSE

# Parts of a long run. The report at the end has the minutes of each part, and in brackets the minutes of a processor that its processes
# took. `quietly` prints the lines of a part that match a pattern, or all lines if the part failed. Each lane is a process group, which ends
# with the run.
define PARTS
report=""; name=""; whole=$$SECONDS; start=$$SECONDS; used=0; running=(); \
ticks() { local -a stat; read -r -a stat <"/proc/$$$$/stat"; ticks=$$(( stat[15] + stat[16] )); }; \
minutes() { ticks; printf -v minutes '%6.1f min (%.1f)  %s' "$$(( (SECONDS - $$1) * 10 / 60 ))e-1" "$$(( (ticks - $$2) / 600 ))e-1" "$$3"; }; \
tell() { status=$$?; for one in "$${running[@]}"; do kill -- "-$$one" 2>/dev/null || true; done; \
    if (( status != 0 )); then minutes $$start $$used "$$name: FAILED"; report+="$$minutes"$$'\n'; fi; \
    minutes $$whole 0 all; printf '\n%s%s\n' "$$report" "$$minutes"; exit $$status; }; \
trap tell EXIT; \
part() { name="$$1"; start=$$SECONDS; ticks; used=$$ticks; shift; echo "== $$name"; "$$@"; \
    minutes $$start $$used "$$name"; report+="$$minutes"$$'\n'; }; \
quietly() { local pattern="$$1"; shift; "$$@" >target/quietly.log 2>&1 || { cat target/quietly.log; return 1; }; \
    grep -E "$$pattern" target/quietly.log || true; }; \
logged() { local log="target/ci/$$1.log" failed=0; shift; mkdir -p target/ci; \
    $(MAKE) --no-print-directory "$$@" >"$$log" 2>&1 || failed=1; cat "$$log"; return $$failed; }; \
lanes() { local lane one failed=0; mkdir -p target/ci; set -m; \
    for lane in "$$@"; do $(MAKE) --no-print-directory "$$lane" </dev/null >"target/ci/$$lane.log" 2>&1 & \
        running+=($$!); done; set +m; \
    for one in "$${running[@]}"; do wait "$$one" || failed=1; done; running=(); \
    for lane in "$$@"; do cat "target/ci/$$lane.log"; done; return $$failed; };
endef

TOOLS := $(VENV)/.tools
# What a build of the wheel needs and nothing else: the demo and the benches need no more.
BUILDING := $(VENV)/.building
# What builds the site of the documents: Sphinx, in an environment of its own.
DOCUMENTING := $(VENV)/docs/.tools
DIST := dist/.built
# The files of the source distribution.
SOURCES := target/sources
UNPACK = mkdir -p $(SOURCES) && tar -xmf dist/delaymq-*.tar.gz --strip-components=1 -C $(SOURCES)
COMPILED_HERE = CARGO_TARGET_DIR="$(CURDIR)/target" PATH="$(CURDIR)/$(BIN):$$PATH"
FROM_SOURCES := target/from_sources/.built
INSTALLED := $(VENV)/.installed
# The build that `make test` tests, whose lines are counted: those of the planted build beside it are not.
TESTED_PACKAGES := target/tested
# The file that names it to Python.
TEST_BUILD_PATH = $(shell $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/delaymq_test_build.pth
# A build in which faults can be planted and that ends itself at failpoints; nobody is given it.
PLANTED := target/planted/.built
PLANTED_FOLDER := target/$(if $(filter dev,$(TEST_PROFILE)),debug,$(TEST_PROFILE))
PLANTED_PROGRAM := target/planted/tortured
# Histories from seeds and small worlds; built with the tests, so that nothing is compiled a second time for it.
SIMULATION := $(PLANTED_FOLDER)/delaymq-simulation
# Gives any bytes to everything that reads bytes, and says what is read of them.
FUZZED := target/fuzz/delaymq-fuzz

##@ Use
.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z_-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(INSTALLED) ## Publish 200,000 messages, kill the process twice, count what was lost, early or doubled; ARGS=--server
	$(BIN)/delaymq demo $(ARGS)

.PHONY: bench
bench: $(INSTALLED) ## Measure each row beside its limit; BENCH="append commit" ARGS="--json --quick"
	$(BIN)/delaymq bench $(BENCH) $(ARGS)

.PHONY: bench-scale
bench-scale: $(INSTALLED) ## What must hold however much is pending: SCALE=100000000 of them, also within one hour, and bursts of a tenth; 40 GB of disk, half an hour
	@failed=; measure() { $(BIN)/delaymq bench "$$1" --scale "$$2" --must $(ARGS) || failed+=" $$1"; }; \
	for scale in $$(( $(SCALE) / 100 )) $$(( $(SCALE) / 10 )) $(SCALE); do measure restart $$scale; done; \
	for name in room changes lateness forecast; do measure $$name $(SCALE); done; \
	measure burst $$(( $(SCALE) / 10 )); measure hour $(SCALE); \
	[[ -z $$failed ]] || { echo "bench-scale: missed a mark, or not measured:$$failed"; exit 1; }

.PHONY: bench-spark
bench-spark: $(TOOLS) $(INSTALLED) ## A store of two million messages read in Spark, beside Parquet of the same rows; ARGS="--messages N --runs N"
	$(BIN)/python benches/python/spark_tables.py $(ARGS)

.PHONY: bench-load
bench-load: $(TOOLS) $(INSTALLED) ## A table of two million messages staged as runs, beside its bytes alone; ARGS="--messages N --runs N"
	$(BIN)/python benches/python/staging.py $(ARGS)

.PHONY: bench-peers
# Nothing is built if there is nothing to compare with.
bench-peers: $(if $(wildcard $(PEERS)/run.py),$(INSTALLED)) ## delaymq beside Redis and PostgreSQL, where the driver of peers is there (PEERS=../shared/peers); ARGS="--rounds N"; needs root
	@$(if $(wildcard $(PEERS)/run.py),$(BIN)/python,$(PYTHON)) benches/python/peer_comparison.py --peers $(PEERS) $(ARGS)

.PHONY: bench-suites
bench-suites: $(TOOLS) $(INSTALLED) ## The parts under criterion and the faces under pytest-benchmark; BENCH=wheel picks by name
	cargo bench --locked -p delaymq-benches --bench suite -- $(BENCH)
	$(BIN)/python -m pytest $(if $(BENCH),-k "$(BENCH)") benches/python || (( $$? == 5 )) # none of that name

##@ Work on it
.PHONY: dev
dev: $(TOOLS) ## Install this folder for development: Python files are used where they lie
	rm -f $(INSTALLED)
	$(BIN)/maturin develop --release --locked

.PHONY: test
test: ## Run the tests of Rust and, next to them, those of Python, all on one test build; each lane's log is in target/ci
	@$(PARTS) \
	part "tools" $(MAKE) --no-print-directory $(TOOLS) $(BUILDING); \
	part "programs of the tests" $(MAKE) --no-print-directory test-programs; \
	part "tests" lanes test-rust test-python-of-build

.PHONY: test-rust
test-rust: $(TOOLS)
	rm -f target/tmp/flipped-bits.txt
	cargo test $(TESTED)
	cat target/tmp/flipped-bits.txt

# All that is compiled for the tests of Rust and of Python, the simulation and the harnesses.
.PHONY: test-programs
test-programs: $(TOOLS)
	cargo test $(TESTED) --no-run
	$(MAKE) --no-print-directory $(FUZZED) $(PLANTED) $(SIMULATION)

# All of them but the rules of the house, which `make lint` checks. They run at least as many lines of the package as pyproject.toml says.
define PYTEST
$(if $(strip $(PYTEST_ARGS)),$(BIN)/python -m pytest $(PYTEST_ARGS),$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(PYTEST_WORKERS) --benchmark-disable --durations=20 --ignore tests/test_tidy.py
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report)
endef

.PHONY: test-python
test-python: export DELAYMQ_WHEEL = $(shell ls dist/*.whl)
test-python: $(TOOLS) $(INSTALLED) $(FUZZED) $(PLANTED) ## The tests of Python against the wheel of dist/; PYTEST_ARGS=
	$(PYTEST)

# Against the build that the tests of Rust use, which would warn that it is no release. A release takes a third of the time of `make test` to compile.
# The build takes the place of an installed wheel, so that a process which the tests start finds it, whatever its environment is.
.PHONY: test-python-of-build
test-python-of-build: export TEST_BUILD_OF_DELAYMQ = 1
test-python-of-build: $(TOOLS) $(FUZZED) $(PLANTED)
	rm -f $(INSTALLED) "$(TEST_BUILD_PATH)"
	$(BIN)/python -m pip uninstall --quiet --yes delaymq 2>/dev/null
	rm -rf $(TESTED_PACKAGES)
	cp -al target/planted/packages $(TESTED_PACKAGES)
	echo "$(CURDIR)/$(TESTED_PACKAGES)" >"$(TEST_BUILD_PATH)"
	printf '#!/bin/sh\nexec "%s" -m delaymq "$$@"\n' "$(CURDIR)/$(BIN)/python" >$(BIN)/delaymq
	chmod +x $(BIN)/delaymq
	$(PYTEST)

.PHONY: test-benches
test-benches: $(TOOLS) $(INSTALLED) ## Run each bench of the suites once, so that they cannot rot; those of Rust run with its tests
	$(BIN)/python -m pytest --benchmark-disable benches/python

.PHONY: lint
lint: $(TOOLS) ## Formats, lints, types and the rules of the house (tests/test_tidy.py)
	cargo fmt --all --check
	cargo fmt --check --manifest-path rust/fuzz/guided/Cargo.toml
	cargo clippy --locked --workspace --all-targets --all-features --profile $(TEST_PROFILE) -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/zizmor --quiet --offline --strict-collection .github
	$(BIN)/python -m pytest -q tests/test_tidy.py

.PHONY: supply-chain
supply-chain: $(TOOLS) ## Licences and sources of every crate; known faults too with ADVISORY_DATABASE=a copy of RustSec's database
	$(BIN)/python packaging/supply_chain.py check

.PHONY: format
format: $(TOOLS) ## Write every file in the house's format
	cargo fmt --all
	cargo fmt --manifest-path rust/fuzz/guided/Cargo.toml
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: docs
docs: $(DOCUMENTING) ## Build the site of the documents in target/site: search, the reference from the docstrings, checked links
	rm -rf target/site target/doctrees
	$(VENV)/docs/bin/sphinx-build -W --keep-going --quiet -j 2 -c docs/site -d target/doctrees . target/site
	@echo "target/site/index.html"

.PHONY: simulate
simulate: $(SIMULATION) ## The core under a cruel disk and clock: SEEDS=n histories from START on, or SEED=x again; a failing one is shrunk
	$(SIMULATION) $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000)) \
	  $(if $(START),--start $(START)) $(ARGS)

.PHONY: small-worlds
small-worlds: $(SIMULATION) ## At least STATES=n disks that a crash may leave, each recovered and judged: every moment, every subset
	$(SIMULATION) --small-worlds $(or $(STATES),500000) $(ARGS)

.PHONY: models
models: ## The store under a model checker that decides whose turn it is, at every lock, signal and call of the disk; TIMES=20 tries more
	rm -f target/tmp/models.txt
	DELAYMQ_MODEL_TIMES=$(or $(TIMES),1) cargo test $(TESTED) --features delaymq-engine/model --test models -- $(if $(TIMES),--skip found)
	cat target/tmp/models.txt

.PHONY: instrumented
instrumented: $(TOOLS) ## Miri, sanitizers and branch coverage, each with its figures or why it was not run; ARGS=branches for one
	PYTHONPATH=tests $(BIN)/python -m instrumented $(ARGS)

.PHONY: flipped-bits
flipped-bits: ## All eight bits of every byte of a small store, flipped one at a time; what came of it
	cargo test --locked -p delaymq-simulation --profile $(TEST_PROFILE) --test it flipped_bits -- --ignored
	cat target/tmp/flipped-bits-all.txt

.PHONY: fuzz
fuzz: $(TOOLS) $(FUZZED) ## Any bytes for every reader, MINUTES=n (default 10) in all; by libFuzzer where it can be built; ARGS=--address
	PYTHONPATH=tests $(BIN)/python -m fuzzing --program $(FUZZED) --minutes $(or $(MINUTES),10) $(ARGS)

.PHONY: hostile-peers
hostile-peers: $(TOOLS) $(INSTALLED) ## What a hostile peer costs the others, beside what a busy process costs them; on a quiet machine
	PYTHONPATH=tests $(BIN)/python tests/soak/hostile_peers.py $(ARGS)

.PHONY: pipeline
pipeline: $(TOOLS) $(INSTALLED) ## Spark loads ROWS messages (default 1000000) due within 20 s into a live server: consumed, audited, archived, each once; needs Java
	PYTHONPATH=tests $(BIN)/python tests/soak/pipelines.py $(if $(ROWS),--rows $(ROWS)) $(ARGS)

.PHONY: torture
torture: $(TOOLS) $(INSTALLED) $(PLANTED) ## Kill servers and a program on the engine KILLS times (default 320), each ledger judged; MINUTES=n goes on
	PYTHONPATH=tests $(BIN)/python -m torture --kills $(or $(KILLS),320) $(if $(MINUTES),--minutes $(MINUTES)) \
	  --program $(PLANTED_PROGRAM) --packages target/planted/packages --summary target/torture.json $(ARGS)

.PHONY: power-cuts
power-cuts: $(TOOLS) $(INSTALLED) $(PLANTED) ## Cut the power of stores on ext4 and XFS images; CUTS=10000 or MINUTES=30 for long; needs root
	PYTHONPATH=tests $(BIN)/python -m power_cuts --program $(PLANTED_PROGRAM) --planted-program $(PLANTED_PROGRAM) \
	  --json target/power-cuts.json $(if $(CUTS),--cuts $(CUTS) --served-cuts $$(( $(CUTS) / 10 ))) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

# The programs of the layers below: the file system that forgets, and a store to torture, with the faults that are planted.
AMNESIA_ARGS = --program $(PLANTED_PROGRAM) --daemon target/planted/delaymq-amnesia
.PHONY: amnesia
amnesia: $(TOOLS) $(INSTALLED) $(PLANTED) ## Power cuts on a file system of our own that forgets and tears what was not synced, served stores too; CUTS=120; needs root
	PYTHONPATH=tests $(BIN)/python -m amnesia.power_cuts --cuts $(or $(CUTS),120) \
	  --served-cuts $(if $(CUTS),$$(( $(CUTS) / 10 )),24) --planted $(AMNESIA_ARGS) --packages target/planted/packages $(ARGS)

.PHONY: io-errors
io-errors: $(TOOLS) $(INSTALLED) $(PLANTED) ## The k-th call of each kind fails, for every k; ARGS=--all in each way; FAILURES=52 served stores; needs root
	PYTHONPATH=tests $(BIN)/python -m amnesia.io_errors --planted $(AMNESIA_ARGS) $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m amnesia.served_errors --failures $(or $(FAILURES),52) \
	  --daemon target/planted/delaymq-amnesia --packages target/planted/packages

.PHONY: block-images
block-images: $(TOOLS) $(PLANTED) ## What a power cut leaves of an ext4, replayed from each of its writes; IMAGES=120; needs root
	PYTHONPATH=tests $(BIN)/python -m amnesia.block_images --images $(or $(IMAGES),120) --planted $(AMNESIA_ARGS) $(ARGS)

.PHONY: etcd
etcd: $(TOOLS) ## The register of a group of copies in a real etcd of three members, with and without TLS, whose members are killed
	PYTHONPATH=tests $(BIN)/python -m etcd cargo test $(TESTED) --test it etcd:: -- --ignored

.PHONY: failovers
failovers: $(TOOLS) $(INSTALLED) ## Kill, pause, stop and hand over the primary of three nodes under load, FAILOVERS times (default 30); the ledger is judged
	PYTHONPATH=tests $(BIN)/python tests/soak/failovers.py --failovers $(or $(FAILOVERS),30) $(ARGS)

.PHONY: steadiness
steadiness: $(TOOLS) $(INSTALLED) ## Three nodes on busy processors, each paused for 2 s now and then, MINUTES long (default 1): no node takes over from another
	PYTHONPATH=tests $(BIN)/python tests/soak/steadiness.py --minutes $(or $(MINUTES),1) $(ARGS)

.PHONY: soak
soak: $(TOOLS) $(INSTALLED) $(PLANTED) ## All that CI has a short form of, and what it has none of, for some hours; then seeds, the demo, torture, power cuts, recorded disks and models in turn for MINUTES (default 60), once at least; SOAK_SEEDS= SOAK_COPIES= SOAK_FAILOVERS= SOAK_KILLS= SOAK_POWER_CUTS= of each turn, SOAK_STATES= SOAK_WAYS= SOAK_STEADY= SCALE= before; stops at the first broken promise
	@$(PARTS) \
	target() { $(MAKE) --no-print-directory MINUTES= ROWS= ARGS= "$$@"; }; \
	ignored() { cargo test --locked -p delaymq-simulation --profile $(TEST_PROFILE) --test it "$$1::" -- --ignored; }; \
	stopped_clocks() { CLOCKS_STOPPED_SECONDS=180 $(BIN)/python -m pytest -q tests/clocks -k stopped; }; \
	scale() { target bench-scale || echo "soak: MISSED, as said above; the rest goes on, since a mark is no promise"; }; \
	layer() { PYTHONPATH=tests $(BIN)/python -m "amnesia.$$1" "$${@:2}" --seed $$first $(AMNESIA_ARGS); }; \
	part "flipped bits, all" target flipped-bits; \
	part "instruments" target instrumented; \
	part "simulation is built" $(MAKE) --no-print-directory $(SIMULATION); \
	part "small worlds" quietly . $(SIMULATION) --small-worlds $(SOAK_STATES); \
	part "I/O errors, every call in each way" quietly "NOT RUN|kinds" target io-errors ARGS=$(SOAK_WAYS); \
	part "stopped clocks" quietly "passed" stopped_clocks; \
	part "a busy machine is no failover" quietly "^steadiness:" target steadiness MINUTES=$(SOAK_STEADY); \
	if command -v java >/dev/null; then part "pipeline" quietly "^pipeline:" target pipeline; \
	  else echo "pipeline: NOT RUN, there is no java"; fi; \
	part "merging" quietly "^test result" ignored merging; \
	part "interleaving" quietly "^test result" ignored interleaving; \
	part "benches at scale" scale; \
	end=$$(( SECONDS + $(or $(MINUTES),60) * 60 )); seeds=0; turns=0; \
	while :; do \
	  first=$$(( (RANDOM << 30) | (RANDOM << 15) | RANDOM )); turns=$$(( turns + 1 )); turn=", turn $$turns"; \
	  part "simulation$$turn" quietly "seeds|^over connections" $(SIMULATION) --seeds $(SOAK_SEEDS) --start $$first; \
	  part "copies$$turn" quietly "seeds|^of copies" $(SIMULATION) --histories copies --seeds $(SOAK_COPIES) --start $$first; \
	  part "failovers$$turn" quietly "^failovers:" target failovers FAILOVERS=$(SOAK_FAILOVERS); \
	  part "cluster$$turn" quietly "seeds|^of copies" $(SIMULATION) --histories cluster --seeds $$(( $(SOAK_COPIES) / 20 )) --start $$first; \
	  part "demo$$turn" quietly "promise" $(BIN)/delaymq demo; \
	  part "torture$$turn" quietly "^torture:|^\{|^never reached" target torture KILLS=$(SOAK_KILLS); \
	  part "power cuts$$turn" quietly "^power cuts:" target power-cuts CUTS=$(SOAK_POWER_CUTS); \
	  part "models$$turn" quietly "^test result| orders, " env DELAYMQ_MODEL_SEED=$$first $(MAKE) --no-print-directory models TIMES=$(SOAK_MODELS); \
	  part "power cuts, a disk that forgets$$turn" quietly "NOT RUN|power cuts" \
	    layer power_cuts --cuts $(SOAK_CUTS) --served-cuts $$(( $(SOAK_CUTS) / 10 )); \
	  part "block images$$turn" quietly "NOT RUN|images of" layer block_images --images $(SOAK_CUTS); \
	  part "fuzzing$$turn" quietly "^mutations:|^libFuzzer:" target fuzz MINUTES=2; \
	  seeds=$$(( seeds + $(SOAK_SEEDS) )); echo "soak: $$seeds seeds, $$(( SECONDS / 60 )) minutes"; \
	  (( SECONDS < end )) || break; \
	done

.PHONY: lock
lock: $(TOOLS) ## Write requirements-dev.txt, requirements-build.txt and requirements-docs.txt from their .in files, with hashes
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet pip-tools
	for name in dev build docs; do \
	  $(VENV)/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url \
	    --no-emit-trusted-host --no-emit-find-links --output-file=requirements-$$name.txt requirements-$$name.in; \
	done

.PHONY: dist
dist: $(DIST) ## The wheel (abi3: one for every Python from 3.11), what it is made of, and the source distribution, in dist/
	ls -l dist

.PHONY: dist-test
dist-test: $(TOOLS) $(INSTALLED) $(FROM_SOURCES) ## Let pip build a wheel from the source distribution; run the README with it and nothing else
	DELAYMQ_WHEEL="$$(ls dist/*.whl)" DELAYMQ_WHEEL_FROM_SOURCES="$$(ls target/from_sources/*.whl)" \
	  $(BIN)/python -m pytest tests/end_to_end/test_wheel.py -k sources

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(VENV) target dist .benchmarks .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis

##@ Before a push
.PHONY: ci
ci: ## What .ci/run runs: lint, release wheel, the tests against it, seeds, torture, a short demo; with the minutes of each
	@$(PARTS) \
	part "tools" $(MAKE) --no-print-directory $(TOOLS); \
	part "lint and the programs of the tests, next to the wheel and failovers" lanes ci-programs ci-wheel; \
	part "tests, next to what computes and what waits" lanes ci-rust ci-computing ci-python ci-waiting; \
	part "demo" $(MAKE) --no-print-directory demo ARGS="$(or $(DEMO_ARGS),--messages 20000)"

# Lanes that `make ci` runs next to each other. Each part has a log of its own in target/ci. Cargo waits for its own lock, so no two lanes compile
# at length in one folder. The tests of Python, of which the processes with the tests of Spark take longest, and the harnesses leave the processors
# idle for half the time, each alone: so the tests of Rust and what computes run next to them.
.PHONY: ci-programs ci-wheel ci-rust ci-computing ci-python ci-waiting
ci-programs:
	@$(PARTS) \
	part "lint" logged lint lint; \
	part "supply chain" logged supply-chain supply-chain; \
	part "programs" logged programs test-programs

ci-wheel:
	@$(PARTS) \
	part "wheel and source distribution" logged wheel $(INSTALLED); \
	part "documents" logged documents docs; \
	part "failovers" logged failovers failovers; \
	part "steadiness" logged steadiness steadiness

ci-python:
	@$(PARTS) \
	part "tests of Python, wheel of dist/" logged python test-python; \
	part "wheel that pip builds" logged from-sources dist-test; \
	part "benches, each once" logged benches test-benches

ci-rust:
	@$(PARTS) \
	part "tests of Rust" logged rust test-rust

# Seeds are three times those within which tests/it/planted.rs and connected.rs find every planted fault: 600, and 4,000
# over connections. None of these parts has a clock of this machine, so they leave the processors to the other lanes.
ci-computing:
	@$(PARTS) \
	renice -n 3 -p $$$$ >/dev/null; \
	part "models" logged models models; \
	part "small worlds" logged small-worlds small-worlds STATES=$(or $(STATES),100000); \
	part "simulation" logged simulation simulate SEEDS=$(or $(SEEDS),2000); \
	part "simulation over connections" logged connections simulate SEEDS=$(or $(SEEDS),12000) ARGS="--histories connected"; \
	part "simulation of copies" logged copies simulate SEEDS=$(or $(SEEDS),200000) ARGS="--histories copies"; \
	part "simulation of a cluster" logged cluster simulate SEEDS=$(or $(SEEDS),20000) ARGS="--histories cluster"

ci-waiting:
	@$(PARTS) \
	part "etcd" logged etcd etcd; \
	part "torture" logged torture torture; \
	part "power cuts" logged power-cuts power-cuts; \
	part "power cuts, a disk that forgets" logged amnesia amnesia; \
	part "I/O errors, every call" logged io-errors io-errors; \
	part "block images" logged block-images block-images IMAGES=$(or $(IMAGES),60)

# --- files ---------------------------------------------------------------------------------------

$(TOOLS): requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.txt
	touch $@

$(BUILDING): requirements-build.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-build.txt
	touch $@

$(DOCUMENTING): requirements-docs.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --require-hashes -r requirements-docs.txt
	touch $@

# The wheel is built from what the source distribution has in it and from nothing else, so that a file which that lacks is missed here. Its files
# get new times, by which Cargo sees what changed.
$(DIST): $(BUILDING) $(WHEEL_SOURCES)
	rm -rf dist $(SOURCES)
	$(BIN)/maturin sdist --out dist
	$(UNPACK)
	cd $(SOURCES) && $(COMPILED_HERE) maturin build --release --locked --interpreter python --out "$(CURDIR)/dist"
	$(BIN)/python packaging/supply_chain.py bill dist/*.whl
	touch $@

# What the tests, the demo and the benches run is the wheel that would be given away.
$(INSTALLED): $(DIST)
	rm -f "$(TEST_BUILD_PATH)"
	$(BIN)/python -m pip install --quiet --no-deps --no-index --force-reinstall dist/delaymq-*.whl
	touch $@

# Cargo knows whether it is up to date.
.PHONY: $(SIMULATION)
$(SIMULATION):
	cargo build $(TESTED) --bin delaymq-simulation --example tortured # an example brings the features that tests have, so that these are used

# As pip builds a wheel where there is none for a machine, with the tools that are here. All is compiled already.
$(FROM_SOURCES): $(DIST)
	rm -rf $(@D)
	[[ -d $(SOURCES) ]] || { $(UNPACK); }
	$(COMPILED_HERE) $(BIN)/python -m pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir $(@D) ./$(SOURCES)
	touch $@

$(FUZZED): $(RUST_SOURCES)
	cargo build $(TESTED) --bin delaymq-fuzz --example tortured # see $(SIMULATION)
	mkdir -p $(@D)
	cp $(PLANTED_FOLDER)/delaymq-fuzz $@

$(PLANTED): $(BUILDING) $(WHEEL_SOURCES)
	rm -rf $(@D)
	mkdir -p $(@D)/packages
	cargo build $(TESTED) --lib --bins --example tortured
	cp -r python/delaymq python/pyspark_delaymq python/pytest_delaymq $(@D)/packages/
	rm -f $(@D)/packages/delaymq/_core*.so
	$(BIN)/maturin pep517 write-dist-info --metadata-directory $(@D)/packages --interpreter $(BIN)/python
	cp $(PLANTED_FOLDER)/lib_core.so $(@D)/packages/delaymq/_core.abi3.so
	cp $(PLANTED_FOLDER)/examples/tortured $(PLANTED_PROGRAM)
	cp $(PLANTED_FOLDER)/delaymq-amnesia $(@D)/
	touch $@
