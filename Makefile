# Every target sets up what it needs: `make demo` and `make test` work in a fresh clone.
# `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE ?= .cache/servers
WORKERS ?= 4
WORDNET ?= build/model/usr/share/wordnet

# One file for all platforms and versions of Python, whose hashes are those of all files of a release.
COMPILE := build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --custom-compile-command "make lock"

# What builds the editable package, since it is installed without a build environment of its own.
BUILD := hatchling\neditables\n
# What the container image has besides: Node and uv for servers started by npx and uvx.
IMAGE_PACKAGES := hatchling\nnodejs-wheel-binaries\nuv\n

BASE := $(VENV)/.installed-base
DEV := $(VENV)/.installed-dev
INPUTS := pyproject.toml requirements/base.txt requirements/dev.txt
MADE := $(VENV)/.made
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# Files of other content than when the versions were chosen are refused, and no package runs code to be built.
LOCKED := $(PIP) install --quiet --require-hashes --no-deps --only-binary :all: --requirement

# Without cached bytecode every test process would compile the package and the tests anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test coverage check docs bench scale soak fuzz eval model tune calibrate lock image release venv fix clean

help: ## list the targets
	@echo "Targets (each sets up what it needs):"
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' \
	  | awk -F'|' '{ printf "  %-16s %s\n", $$1, $$2 }'

demo: $(BASE) ## real MCP servers behind one endpoint, in the terminal; KEEP=1 leaves it serving
	@$(BIN)/toolgate demo --servers-dir $(CACHE) $(if $(KEEP),--keep)

test: $(DEV) ## all tests
	@echo "==> Real servers and clients for the tests, in .cache (a minute or two on first use)"
	@$(BIN)/python -m tests.real.setup
	@echo "==> Tests"
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q $(ARGS)

coverage: override ARGS := --cov --cov-report=term:skip-covered --cov-fail-under=85 $(ARGS)
coverage: test ## all tests with branch coverage, which take half as long again; fails under 85 %

check: $(DEV) ## format, lint, types, layers, dependencies; no tests
	@echo "==> Format" && $(BIN)/ruff format --check
	@echo "==> Lint" && $(BIN)/ruff check
	@echo "==> Types, of the package also for Windows and macOS"
	@printf '%s\n' "--pythonplatform Linux" "--pythonplatform Windows src" "--pythonplatform Darwin src" \
	  | PYRIGHT_PYTHON_IGNORE_WARNINGS=1 xargs -P 3 -I '{}' sh -c '$(BIN)/pyright --pythonpath $(BIN)/python {}'
	@echo "==> Layers" && $(BIN)/lint-imports
	@echo "==> Dependencies" && $(BIN)/python -m deptry src
	@$(BIN)/python -m deptry benchmarks deploy docs examples tests training --exclude vendored --exclude tests/real/scripts --ignore DEP002,DEP004

fix: $(DEV) ## repair what ruff can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(DEV) ## make the pages anew that come from the code
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/generate_commands.py
	$(BIN)/python docs/generate_errors.py
	$(BIN)/python docs/generate_acceptance.py
	$(BIN)/python docs/generate_metrics.py

bench: $(DEV) ## measure the gateway; ARGS="--quick" in a minute, ARGS="--json" for machines
	$(BIN)/python -m benchmarks $(ARGS)

eval: $(DEV) ## measure the search on labelled requests: make eval DATA=FOLDER
	@test -n "$(DATA)" || { echo "Say where the data sets are: make eval DATA=FOLDER" >&2; exit 2; }
	@for strategy in bm25 hybrid; do \
	  OMP_NUM_THREADS=1 $(BIN)/toolgate eval tools $(addprefix $(DATA)/tools/,mcpverse metatool metatool_multi stabletoolbench bfcl_live bfcl_basic) \
	    --strategy $$strategy --limit 1000 $(ARGS) \
	  && OMP_NUM_THREADS=1 $(BIN)/toolgate eval tools $(DATA)/tools/mcpverse --with $(DATA)/tools/toucan \
	    --strategy $$strategy $(ARGS) || exit 1; done
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.ablation --distractors $(DATA)/tools/toucan $(addprefix $(DATA)/tools/,mcpverse mcpverse+toucan metatool metatool_multi stabletoolbench bfcl_live bfcl_basic)

scale: $(DEV) ## search over 600 to 1,000,000 tools: make scale DATA=FOLDER, with tools/ in it
	@test -d "$(DATA)/tools" || { echo "Say where the data sets are: make scale DATA=FOLDER" >&2; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.scale "$(DATA)/tools" $(ARGS)

soak: $(DEV) ## 1,000,000 calls to three replicas with killed servers and changed settings; takes hours
	$(BIN)/python -m benchmarks.soak $(ARGS)

fuzz: $(DEV) ## attack a gateway with machine-made inputs: make fuzz ARGS="--count 1000000"
	$(BIN)/python -m tests.fuzz $(ARGS)

model: $(MADE) ## make the embedding model in the package anew; DATA=folder with tools/ and intents/
	@test -d "$(DATA)/tools" || { echo "Name the folder with the data: make model DATA=/path (docs/model.md says what is in it)" >&2; exit 2; }
	@echo "==> Libraries of the training, in build/model"
	@$(PYTHON) -m venv build/model/venv
	@build/model/venv/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
	  --requirement training/requirements.txt
	@test -e "$(WORDNET)/data.noun" || { echo "==> WordNet, from Debian's package"; \
	  cd build/model && apt-get download -qq wordnet-base && dpkg -x wordnet-base_*.deb . ; }
	@echo "==> Model (half an hour on two cores)"
	PYTHONPATH=src nice -n 19 build/model/venv/bin/python -m training --data "$(DATA)" --wordnet "$(WORDNET)" $(ARGS)

tune: ## tune the embedding model in the package with short requests; after make model
	@test -d "$(DATA)/tools" || { echo "Name the folder with the data: make tune DATA=/path (docs/model.md says what is in it)" >&2; exit 2; }
	PYTHONPATH=src nice -n 19 build/model/venv/bin/python -m training.tuning --data "$(DATA)" --wordnet "$(WORDNET)" $(ARGS)

calibrate: $(DEV) ## fit relevance and fit of the search to the model in the package; after make tune
	@test -d "$(DATA)/tools" || { echo "Name the folder with the data: make calibrate DATA=/path (docs/model.md says what is in it)" >&2; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/python -m training.kinds $(filter --check,$(ARGS))
	OMP_NUM_THREADS=1 $(BIN)/python -m training.reranking --data "$(DATA)" $(ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m training.calibrate --data "$(DATA)" $(ARGS)

lock: $(DEV) ## choose versions for new requirements, with hashes: make lock [ARGS="--upgrade-package NAME"]
	@test -x build/lock/bin/uv || { $(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet uv==0.13.9; }
	@printf '$(BUILD)' | $(COMPILE) --extra dev pyproject.toml - --output-file requirements/dev.txt $(ARGS)
	@printf '$(BUILD)' | $(COMPILE) --extra sql pyproject.toml - --constraint requirements/dev.txt --output-file requirements/base.txt
	@printf '$(IMAGE_PACKAGES)' | $(COMPILE) --extra postgres --extra programs --extra sql pyproject.toml - --constraint requirements/dev.txt --output-file requirements/image.txt $(ARGS)

image: ## the container image, with buildah: make image [IMAGE=NAME] [BASE=IMAGE] [ISOLATION=chroot]
	@command -v buildah >/dev/null || { echo "buildah was not found. On Debian and Ubuntu: apt-get install buildah" >&2; exit 2; }
	BASE="$(BASE)" ISOLATION="$(ISOLATION)" deploy/build_image.sh $(or $(IMAGE),localhost/toolgate) $(ARGS)

release: $(DEV) ## all files of a release in dist/, without uploading them; ARGS=--dry-run shows them
	@$(BIN)/python deploy/release.py $(ARGS)

venv: $(DEV) ## the development environment in .venv

clean: ## remove everything that was made: environment, caches, builds
	rm -rf $(VENV) .cache build dist htmlcov .coverage .coverage.* .pytest_cache .ruff_cache \
	  .hypothesis .import_linter_cache src/*.egg-info
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found. Install Python 3.11 or later, or name it: make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$$($(PYTHON) --version) is too old: Toolgate needs Python 3.11 or later. Name another: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	@echo "==> Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(BASE): $(INPUTS) | $(MADE)
	@echo "==> Toolgate and its libraries (a minute or two on first use)"
	@$(LOCKED) requirements/base.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable . && $(PIP) check --quiet
	@touch $@

$(DEV): $(INPUTS) | $(MADE)
	@echo "==> Toolgate, its libraries and the development tools (a few minutes on first use)"
	@$(LOCKED) requirements/dev.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable . && $(PIP) check --quiet
	@touch $(BASE) $@
