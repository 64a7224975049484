# make smoke: install, then the main job on the embedded data.   make test: the whole suite, as CI calls it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Most tests wait for programs that they start, so three processes share two cores well. A file stays in one of them: its tests
# share what is expensive to make.
WORKERS ?= 3
# Further options, such as `make test OPTIONS=--last-failed`. The worker processes do not see those of PYTEST_ADDOPTS.
OPTIONS ?=
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile $(OPTIONS)

# compiled once: every test starts programs of this tree
unexport PYTHONDONTWRITEBYTECODE

.PHONY: smoke test slow matrix bench gpu lint docs clean

# what ddpdoctor needs to run ranks: torch is an extra, as a training environment brings its own
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[torch]'
	touch $@

# what working on ddpdoctor needs besides
$(VENV)/development: $(VENV)/installed
	$(PIP) --editable '.[dev]'
	touch $@

smoke: $(VENV)/installed
	$(BIN)/ddpdoctor smoke --nproc 2

test: $(VENV)/development
	$(PYTEST)

slow: $(VENV)/development
	$(PYTEST) -m slow

matrix: $(VENV)/development
	$(BIN)/python -m pytest -m matrix

bench: $(VENV)/development
	$(BIN)/python -m tests.bench

# what needs a GPU, with the Python whose torch sees one (GPU_PYTHON names another); without a GPU every part is skipped
gpu:
	$(or $(wildcard $(BIN)/python),$(PYTHON)) -m tests.gpu $(PARTS)

lint: $(VENV)/development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# the site, as it is published: a broken link is an error
docs: $(VENV)/installed
	$(PIP) --editable '.[docs]'
	$(BIN)/mkdocs build --site-dir build/site

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
