# Everything runs from an environment that these commands make themselves: only Python >= 3.11, pip and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Tests start dozens of processes. Were Python forbidden to write byte code, each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo docs notebooks test test-arviz test-slow test-lowest lint types figures clean

demo: $(STAMP)
	$(BIN)/bayesdrop demo

# What XLA compiles in one test, notebook or process, no other compiles again. A size makes JAX lock the folder.
notebooks test test-arviz test-slow: export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.pytest_cache/compiled
notebooks test test-arviz test-slow: export JAX_COMPILATION_CACHE_MAX_SIZE ?= 4000000000
notebooks test test-arviz test-slow: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.2

# Two processes run at a time: were each to share its small products among all cores, they would wait for one another.
test test-arviz test-slow test-lowest: export OMP_NUM_THREADS ?= 1

# Most of the time of a test of JAX is compilation: programs that run once are compiled quickly, not well. The slow tests
# run as a user's programs do. A release of XLA without these flags would refuse to start, and then does without: each
# environment is asked once, by $(call ask,FOLDER). $(call lazily,FOLDER,LEVEL) is for what its interpreter runs. The
# long chains of notebooks want level 1, which they take by themselves: it takes half as long again to compile a sampler,
# and a sweep then a third of the time.
LAZY := --xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level
ask = XLA_FLAGS='$(LAZY)=0' $(1)/bin/python -c 'import jax; jax.devices(); print("$(LAZY)")' 2>/dev/null >$(1)/.lazy || :
lazily = XLA_FLAGS="$$(sed 's/$$/=$(2)/' $(1)/.lazy)"

# The examples of the docstrings run with types and shapes checked at every call: twice the time where calls are short.
CHECKED := --jaxtyping-packages="bayesdrop,beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"

test: $(VENV)/.lazy
	$(call lazily,$(VENV),0) $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow' tests
	$(call lazily,$(VENV),0) $(BIN)/python -m pytest -n 2 --dist worksteal $(CHECKED) bayesdrop

# Where the newer line of ArviZ, which needs Python 3.12, could differ: all that builds, reads or shows its groups, and no
# arithmetic; of other rooms the tests that do.
test-arviz: $(VENV)/.lazy
	$(call lazily,$(VENV),0) $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow or notebook' tests/posterior tests/plots tests/cli/test_commands.py \
		--ignore=tests/posterior/noise_average --ignore=tests/posterior/projection \
		--ignore=tests/posterior/scores/test_approximation.py --ignore=tests/posterior/scores/test_widened.py \
		--ignore=tests/posterior/test_description.py --ignore=tests/posterior/test_predictive.py \
		--ignore=tests/posterior/test_class_priors.py \
		tests/variational_bayes/test_variational.py::test_draws_follow_the_approximation_and_the_file_keeps_them \
		tests/packaging/test_readme.py tests/packaging/test_week.py \
		tests/packaging/test_packaging.py::test_each_stage_imports_no_more_than_it_needs \
		tests/sampling/run/test_third_party.py tests/sampling/test_priors.py::test_posterior_names_groups_and_priors \
		tests/factorization/test_sampler.py::test_the_posterior_has_what_columns_cannot_exchange \
		tests/latent/test_posterior.py::test_posterior_in_arviz \
		"tests/notebooks/test_notebooks.py::test_a_notebook_runs_and_shows_what_is_stored[02_posterior_of_rates]"

# Runs every notebook, ten minutes or so, and stores it with its outputs; NOTEBOOKS="04 05" for some of them.
notebooks: $(VENV)/.lazy
	$(call lazily,$(VENV),1) $(BIN)/python notebooks/execute.py $(NOTEBOOKS)

# The pages and the API reference, into build/docs; nothing is fetched, and a warning is an error.
docs: $(STAMP)
	JAX_PLATFORMS=cpu $(BIN)/python -m sphinx -W --keep-going --quiet --fresh-env -b html docs build/docs

# Hours, a file to a core; a stopped run goes on where it was. Its report is benchmarks/results/slow_suite.json.
test-slow: $(STAMP)
	$(BIN)/python -m benchmarks.slow_suite

# The oldest releases that pyproject.toml allows, in an environment of their own, and the tests that touch most of them.
LOWEST := .venv-lowest
test-lowest: $(LOWEST)/.lazy
	$(call lazily,$(LOWEST),0) $(LOWEST)/bin/python -m pytest -n 2 --dist worksteal \
		-o addopts= -o filterwarnings= -m 'not slow' --import-mode=importlib \
		tests/estimators/test_results.py tests/estimators/test_faults.py tests/posterior/test_arviz_binary.py \
		tests/sampling/run/test_third_party.py tests/distributions/test_densities.py \
		tests/laws/conformance/test_matrix.py tests/fitting/piecewise_linear/test_dual.py \
		--doctest-modules bayesdrop/_validation/table.py bayesdrop/data/frames.py bayesdrop/data/column_facts.py

$(LOWEST)/.lazy: pyproject.toml tests/packaging/lowest.py
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet $$($(PYTHON) tests/packaging/lowest.py) pytest pytest-xdist
	$(LOWEST)/bin/python -m pip install --quiet --no-deps --editable .
	$(LOWEST)/bin/python -m pip check
	$(call ask,$(LOWEST))

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# The figures of the pages, one benchmark at a time: those that are not of today's code and take at most a quarter of
# an hour, three hours in all; FIGURES="growth peers" for some, FIGURES=all for every one. A stopped run goes on where it was.
figures: $(STAMP)
	$(BIN)/python -m benchmarks.figures $(FIGURES)
	$(BIN)/python -m benchmarks.report

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), which takes a minute or two; pip says what it is at:"
	$(BIN)/python -m pip install --upgrade pip
	$(BIN)/python -m pip install --editable '.[dev]'
	touch $@

$(VENV)/.lazy: $(STAMP)
	$(call ask,$(VENV))

clean:
	rm -rf $(VENV) $(LOWEST) build docs/api/generated docs/notebooks dist *.egg-info bayesdrop-output
