# Every target sets up what it needs in .venv, from Python 3.11 alone.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Files of tests run beside one another; most of them wait for processes of their own.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

.PHONY: setup demo test check format bench soak lock image clean

setup: $(STAMP)

# Third-party code is byte-compiled: a runner process lives for one run, so its start is paid every time.
$(STAMP): requirements/dev.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; install Python 3.11 or call make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	-$(BIN)/python -m compileall -q -j 0 $(VENV)/lib
	@sh tests/install-chromium
	@touch $@

demo: $(STAMP)
	$(BIN)/python -m runner demo

test: $(STAMP)
	$(PYTEST)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	$(PYTEST)

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python -m compileall -q runner settlement checkpoint
	$(BIN)/python -m bench

soak: $(STAMP)
	$(BIN)/python -m tests.faults.soak

lock: $(STAMP)
	$(BIN)/uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --group build --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements/build.txt
	$(BIN)/uv pip compile --quiet pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements/dev.txt

image:
	sh image/build

clean:
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis
