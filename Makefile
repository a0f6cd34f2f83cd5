# Two commands matter: `make explore` opens the explorer, `make test` runs everything that is tested.
# Both need Python 3.11 or newer with pip, and a package index. All is installed below this folder, in .venv and .tools;
# downloads are cached where uv keeps them.

PYTHON ?= python3
VENV := .venv
TOOLS := .tools
UV := $(or $(shell command -v uv 2>/dev/null),$(TOOLS)/bin/uv)
BIN := $(VENV)/bin

# uv does not read pip's settings; an index that pip is set up for serves uv too.
INDEX := $(or $(UV_DEFAULT_INDEX),$(PIP_INDEX_URL),$(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null))
ifneq ($(INDEX),)
export UV_DEFAULT_INDEX := $(INDEX)
endif
ifneq ($(PIP_CERT),)
export SSL_CERT_FILE ?= $(PIP_CERT)
endif
export UV_PYTHON_DOWNLOADS := never

INSTALL := $(UV) pip install --quiet --python $(BIN)/python --constraints constraints.txt
EXTRAS := models,claude,evals,cluster

.PHONY: help explore test live lint types bench screenshots snapshots clean

help:
	@echo "make explore      open the explorer on the bundled corpus"
	@echo "make test         run all tests (installs every extra)"
	@echo "make live         the tests that need the default models or a login at Claude (up to \$$0.20)"
	@echo "make lint types   ruff, mypy --strict"
	@echo "make bench        ratios against bare operations and peers, measured in one run"
	@echo "make screenshots  the pictures of the README, from the real app"
	@echo "make snapshots    accept the screens as they are now"

explore: $(VENV)/.base
	$(BIN)/retrieval-lab explore

test: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses auto -m "not live" $(PYTEST_ARGS)

live: $(VENV)/.dev
	$(BIN)/python -m pytest tests/core/test_live_models.py tests/core/test_live_answers.py -rs

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(UV) pip install --quiet --python $(BIN)/python --constraints constraints.txt --group bench
	$(BIN)/python -m tests.benchmarks

screenshots: $(VENV)/.dev
	$(BIN)/python -m screenshots.make

snapshots: $(VENV)/.dev
	$(BIN)/python -m pytest tests/tui --snapshot-update

# The stamps say what is installed: the product alone, or with all extras and the tools.
$(VENV)/.base: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable ".[$(EXTRAS)]" --group dev
	@touch $@ $(VENV)/.base

$(BIN)/python: | $(UV)
	$(UV) venv --quiet --python "$$(command -v $(PYTHON))" $(VENV)

# --target leaves the system's own packages alone, so it is allowed where pip is externally managed.
$(TOOLS)/bin/uv:
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-user --target $(TOOLS) uv

clean:
	rm -rf $(VENV) $(TOOLS) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
