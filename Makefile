# make smoke: install, then the main job on the embedded data.   make test: the whole suite, as CI calls it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: smoke test slow matrix bench lint clean

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

smoke: $(VENV)/installed
	$(BIN)/ddpdoctor smoke --nproc 2

test: $(VENV)/installed
	$(BIN)/python -m pytest

slow: $(VENV)/installed
	$(BIN)/python -m pytest -m slow

matrix: $(VENV)/installed
	$(BIN)/python -m pytest -m matrix

bench: $(VENV)/installed
	$(BIN)/python -m tests.bench

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
