# One word per habit; `make` alone lists them.  Every target installs what it needs, once.

PYTHON ?= python3

BIN   := .venv/bin
STAMP := .venv/.installed

RIDGE       := benchmarks/ridge
BENCH       := .venv-bench/bin/python
BENCH_STAMP := .venv-bench/.installed
BENCH_PIP   := $(BENCH) -m pip install --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format coverage errata docs examples reproduce clean
.PHONY: bench-kernels experiments bench-env bench-check bench-quick bench-strong bench-between bench-others bench-regret bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## create .venv and install the package with its development tools

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || command -v "$(PYTHON)" >/dev/null || { \
	  echo "sketchridge needs Python 3.11 or newer, and '$(PYTHON)' was not found: name one with make PYTHON=/path/to/python3." >&2; exit 1; }
	@python="$(PYTHON)"; remedy="name a newer one with make PYTHON=/path/to/python3."; \
	if test -x $(BIN)/python; then python=$(BIN)/python; remedy="remove .venv and run make again with a newer PYTHON."; fi; \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "sketchridge needs Python 3.11 or newer, and '$$python' is $$("$$python" --version 2>&1): $$remedy" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "creating .venv" && "$(PYTHON)" -m venv .venv; }
	@echo "installing sketchridge and its development tools into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input -e ".[dev]"
	@touch $@

demo: $(STAMP) ## solve an example and show what the certificate says
	@$(BIN)/sketchridge demo

test: lint ## every check: style, types, layers, and the fast tests
	@$(BIN)/python -m pytest -q -n auto --dist worksteal

lint: $(STAMP) ## style, types and layers, without the tests
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "some files are not formatted: run make format" >&2; exit 1; }
	@$(BIN)/mypy
	@report=$$($(BIN)/lint-imports 2>&1) || { echo "$$report" >&2; exit 1; }

format: $(STAMP) ## rewrite the source in the house style
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

coverage: $(STAMP) ## which lines the fast tests reach (compiled kernels show only as called)
	@$(BIN)/python -m pytest -q --cov --cov-report=term

bench-kernels: $(STAMP) ## time the kernels against numpy and scipy, as ratios in one run
	@$(BIN)/python benchmarks/kernels.py

reproduce: $(STAMP) ## the paper's figures and table, into docs/ (half an hour; data from SKETCHRIDGE_DATA)
	@$(BIN)/sketchridge reproduce --out docs --force

experiments: $(STAMP) ## how passes grow, what the sketch gains, which method when: tables, and docs/figures
	@for name in growth gain choose beyond; do PYTHONPATH=. OMP_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py || exit 1; done

bench-env: $(BENCH_STAMP) ## create .venv-bench with benchopt and every peer (several minutes)

# lightning has no wheels: it is built here, with tools of its time, and left out where that fails.
$(BENCH_STAMP): $(RIDGE)/requirements.txt pyproject.toml
	@test -x $(BENCH) || { echo "creating .venv-bench" && "$(PYTHON)" -m venv .venv-bench; }
	@echo "installing benchopt and the peers into .venv-bench"
	@$(BENCH_PIP) "setuptools<60" wheel "cython<3" $$(grep -E '^(numpy|scipy|scikit-learn)==' $(RIDGE)/requirements.txt)
	@$(BENCH) -c "import lightning" 2>/dev/null || $(BENCH_PIP) --no-build-isolation sklearn-contrib-lightning==0.6.2.post0 \
	  || echo "sklearn-contrib-lightning cannot be built here: its solvers will be left out" >&2
	@$(BENCH_PIP) -r $(RIDGE)/requirements.txt -e .
	@touch $@

bench-check: $(BENCH_STAMP) ## check that every wrapper minimises the benchmark's objective
	@$(BENCH) -W ignore $(RIDGE)/check.py

bench-quick: $(BENCH_STAMP) ## the strongest peers on three problems, under ten minutes on two quiet cores
	@rm -rf $(RIDGE)/results-quick
	@$(BENCH) $(RIDGE)/small.py $(RIDGE)/results-quick
	@$(BENCH) $(RIDGE)/rounds.py quick --results $(RIDGE)/results-quick
	@$(BENCH) $(RIDGE)/board.py --results $(RIDGE)/results-quick

bench-strong: $(BENCH_STAMP) ## the strongest peers on every problem, an hour, into docs/benchmarks.md
	@$(BENCH) $(RIDGE)/small.py $(RIDGE)/results-strong
	@$(BENCH) $(RIDGE)/rounds.py strong --results $(RIDGE)/results-strong
	@$(BENCH) $(RIDGE)/board.py --results $(RIDGE)/results-strong --docs docs

bench-between: $(BENCH_STAMP) ## the same at the penalties between, an hour more, into the same tables
	@$(BENCH) $(RIDGE)/rounds.py between --results $(RIDGE)/results-strong
	@$(BENCH) $(RIDGE)/board.py --results $(RIDGE)/results-strong --docs docs

bench-others: $(BENCH_STAMP) ## every other peer on every problem, an hour and a half more, with a table of its own
	@$(BENCH) $(RIDGE)/rounds.py others --results $(RIDGE)/results-strong
	@$(BENCH) $(RIDGE)/board.py --results $(RIDGE)/results-strong --docs docs

bench-regret: $(BENCH_STAMP) ## the planner's choice against all our candidates, on 30 random problems (ten minutes)
	@$(BENCH) $(RIDGE)/regret.py

bench: $(BENCH_STAMP) ## every peer, growth and the planner's regret (a night), into docs/benchmarks.md
	@$(BENCH) $(RIDGE)/small.py $(RIDGE)/results
	@$(BENCH) $(RIDGE)/rounds.py peers growth regret --results $(RIDGE)/results
	@$(BENCH) $(RIDGE)/board.py --results $(RIDGE)/results --docs docs

errata: $(STAMP) ## check every correction of the paper numerically
	@$(BIN)/python -m pytest -q tests/test_errata.py

docs: $(STAMP) ## build the documentation into docs/_build; a warning is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@echo "docs/_build/index.html"

examples: $(STAMP) ## run the examples, and refresh the pictures of the guides
	@for example in examples/*.py; do \
	  echo "== $$example"; $(BIN)/python $$example --out docs/guides/$$(basename $$example .py).png || exit 1; done

clean: ## remove caches, build products and out/ (.venv stays)
	@rm -rf build dist out docs/_build docs/api/generated htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -path ./.venv -prune -o -path ./.git -prune -o -type d -name __pycache__ -exec rm -rf {} +
