# make setup   everything to work on paceline (a virtual environment in .venv)
# make demo    train the flights example with 2 servers and 2 trainers, and draw the run
# make test    format, lint, types, tests from fast to slow, examples; then one line of counts
# make check   before a commit, in two minutes: format, lint, types, imports, the rules of the house,
#              and the fast tests of rooms; of the trainer those of its pure sub-rooms, and none that
#              puts whole jobs together (tests/cluster, tests/simulate ...): make test runs all
# make test-around  what needs libraries and engines that paceline can do without; nothing may be
#              skipped. As root, with apt-get, it installs SLURM and browsers (tools/install_around.sh)
# make lint    format, lint, types
# make docs    the documentation as a site in build/site
# make bench   all that needs no other library; twenty minutes, on an idle machine
# make bench-peers  against TensorFlow, Paddle, gRPC, pyzmq and Ray, installed in build/peers
# make bench-paces  what paces are worth: beside stragglers, at equal tokens, in virtual time
# make bench-tables  matrix factorisation, topics, clusters and classes against libraries that do nothing else
# make bench-page   what was found last, into docs/benchmarks-results.md
# make soak    20,000 simulated jobs with faults, 1,000,000 reads under a bound; real kills
# make fuzz    made-up bytes for everything that reads them from strangers, FUZZ_SECONDS each
# make clean   remove what was made, except runs/

PYTHON ?= python3
BIN    := .venv/bin
PIP    := $(BIN)/python -m pip install -qq --no-input --no-compile --disable-pip-version-check -c constraints.txt
DEMO   := .venv/.installed-demo
DEV    := .venv/.installed-dev
AROUND := .venv/.installed-around
JOB    := runs/demo-$(shell date +%Y%m%d-%H%M%S)

FUZZ   := .venv/.installed-fuzz
FUZZ_SECONDS ?= 60

.PHONY: setup demo test test-around check lint docs bench bench-peers bench-paces bench-tables bench-page soak fuzz clean

setup: $(DEV)

demo: $(DEMO)
	$(BIN)/paceline run --servers 2 --trainers 2 --job-dir $(JOB) examples/ctr/train.py
	$(BIN)/paceline draw $(JOB)

test: $(DEV)
	@$(BIN)/python tools/check.py

check: $(DEV)
	@$(BIN)/python tools/check.py lint fast

test-around: $(AROUND)
	@tools/install_around.sh
	@$(BIN)/python tools/check.py around

lint: $(DEV)
	@$(BIN)/python tools/check.py lint

docs: $(DEV)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

bench: $(DEV)
	$(BIN)/python -m benchmarks

bench-peers: $(DEV)
	$(BIN)/python -m benchmarks peers

bench-paces: $(DEV)
	$(BIN)/python -m benchmarks pace

bench-tables: $(DEV)
	$(BIN)/python -m benchmarks tables

bench-page: $(DEV)
	$(BIN)/python -m benchmarks page

soak: $(DEV)
	@$(BIN)/python tools/check.py soak

fuzz: $(FUZZ)
	@$(BIN)/python tools/fuzz.py $(FUZZ_SECONDS)

clean:
	rm -rf .venv build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache
	find src tests examples tools -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@echo "setup: making .venv with $(PYTHON)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "expected Python 3.11 or newer, got $$($(PYTHON) --version): set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv .venv

$(DEMO): pyproject.toml constraints.txt | $(BIN)/python
	@echo "setup: installing paceline and what its examples need (torch is large: minutes)"
	@$(PIP) -e '.[examples]'
	@$(MAKE) -s kernels
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "setup: installing paceline, its examples and its checks (torch is large: minutes)"
	@$(PIP) pip # which knows --group since 25.1
	@$(PIP) -e '.[examples]' --group dev
	@$(MAKE) -s kernels
	@touch $(DEMO) $@

$(AROUND): $(DEV)
	@echo "setup: installing what tests around need: Ray, a browser's driver, schemas"
	@$(PIP) -e '.[ray]' --group around
	@touch $@

$(FUZZ): $(DEV)
	@$(PIP) -e . --group fuzz
	@touch $@

.PHONY: kernels
kernels:
	@$(BIN)/paceline warm || echo "the kernels are not kept, and each process compiles its own: see above"
