# Everything a newcomer or CI needs; `make` prints this help.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
CXX_SOURCES := $(shell find csrc -name '*.cpp' -o -name '*.h' -o -name '*.inl' -o -name 'CMakeLists.txt') CMakeLists.txt pyproject.toml
CPP_FILES   := $(shell git ls-files 'csrc/*.cpp' 'csrc/*.h' 'csrc/*.inl' 'bench/*.cpp' 2>/dev/null)
SHOWN       := $(BIN)/python csrc/install.py
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-python models-libraries browser test-card quick generate golden replay check fix models bench asan asan-card fuzz opinfo build clean

help:  ## this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: build models-libraries  ## install everything into .venv and run the examples on the card
	$(BIN)/python examples/first_steps.py
	$(BIN)/python examples/one_op_through_all_stages.py
	$(BIN)/python examples/transformer_block.py
	$(BIN)/python examples/tensor_allocate.py
	$(BIN)/python examples/softmax.py
	$(BIN)/python examples/run_a_kernel_directory.py
	-$(BIN)/python -W ignore examples/chat.py "What is the capital of France?"
	$(BIN)/python examples/explain_transformer_block.py build/transformer_block.html
	$(BIN)/python -W ignore examples/profile_transformer_block.py build/transformer_block.trace.json

build: $(VENV)/.built  ## build and install into .venv (editable)

$(VENV)/.dependencies: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(SHOWN) "installing torch and the build's tools" $(BIN)/pip install torch==2.13.0 scikit-build-core pybind11 ninja
	touch $@

$(VENV)/.built: $(VENV)/.dependencies $(CXX_SOURCES)
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(SHOWN) "building the card" $(BIN)/pip install -v --no-build-isolation -e ".[test,check]"
	touch $@

test: test-card test-python  ## all tests: the C++ card's own, then the Python suites

test-python: build browser models-libraries
	OPENSPYRE_SANITIZE=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

# Libraries for the tests of whole models, which are skipped and say so where there are none. torch stays as it is.
models-libraries: build
	-@test -e $(VENV)/.models || ($(SHOWN) "installing libraries of models" $(BIN)/pip install --no-build-isolation -e ".[models]" torch==2.13.0 && touch $(VENV)/.models)

# For the test that clicks through a page; where none can be had, it is skipped and says so.
browser: build
	-@$(BIN)/python -c "import brotli" 2> /dev/null || $(BIN)/pip install -q brotli
	$(BIN)/python tests/chromium.py $(VENV)/chromium

quick: build  ## what a change breaks first, within a minute: lint, architecture, and all that needs no torch
	$(BIN)/ruff check .
	OPENSPYRE_SANITIZE=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal openspyre tests/test_architecture.py

generate: build  ## write what is made from Python's tables: C++ headers, tables of the documents
	$(BIN)/python csrc/generate.py
	$(BIN)/python docs/generate.py

golden: build  ## accept what passes and planners make of openspyre/compiler/golden now, and show what changed
	OPENSPYRE_GOLDEN=accept $(BIN)/python -m pytest -q openspyre/compiler/test_golden.py openspyre/compiler/test_golden_plans.py
	git --no-pager diff --stat -p -- openspyre/compiler/golden

AGAINST ?= origin/main
replay: build  ## which bundles of the compile corpus differ from AGAINST=commit (tests/replay.py --diff GRAPH shows one)
	$(BIN)/python tests/replay.py --against $(AGAINST)

CARD_TESTS = cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
             -DOPENSPYRE_PYTHON=OFF -DOPENSPYRE_TORCH=OFF -DOPENSPYRE_TESTS=ON

test-card: $(VENV)/.dependencies
	$(CARD_TESTS) -B build/card-tests > /dev/null
	cmake --build build/card-tests -j$(JOBS)
	ctest --test-dir build/card-tests --output-on-failure --no-tests=error

# What is undefined is a failure, not a line that nobody reads.
asan fuzz: export UBSAN_OPTIONS = halt_on_error=1:print_stacktrace=1

asan: asan-card  ## the card's tests under the address, undefined-behaviour and thread sanitizers, and some mutants
	ctest --test-dir build/card-asan --output-on-failure --no-tests=error
	$(CARD_TESTS) -B build/card-tsan -DOPENSPYRE_SANITIZER=thread > /dev/null
	cmake --build build/card-tsan -j$(JOBS)
	ctest --test-dir build/card-tsan --output-on-failure --no-tests=error
	$(ON_ASAN_CARD) --kind bundles --count 500
	$(ON_ASAN_CARD) --kind programs --count 500

# The card, its tests and its Python module under the address sanitizer. Mutants: device memory is the card's to check, the heap is not.
asan-card: $(VENV)/.dependencies
	$(CARD_TESTS) -DOPENSPYRE_PYTHON=ON -DPython_EXECUTABLE=$(abspath $(BIN))/python \
	  -DOPENSPYRE_SANITIZER=address,undefined -B build/card-asan > /dev/null
	cmake --build build/card-asan -j$(JOBS)

# Without libstdc++ beside it, the sanitizer takes every exception for a crash.
ON_ASAN_CARD = LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
               LD_LIBRARY_PATH=build/card-asan/csrc/card \
               $(BIN)/python -m fuzz --card $$(echo build/card-asan/csrc/bindings/_card.*.so)

check: build  ## format, lint, types, architecture
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)
	$(BIN)/python -m pytest -q tests/test_architecture.py

fix: build  ## let the formatters and the linter repair what they can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

models: build models-libraries  ## models of transformers and real weights on the card, against the CPU; writes docs/models.md
	$(BIN)/python -m tests.models

bench: build models-libraries  ## side-by-side benchmarks, then a scan of all operators; tables on the screen, JSON in bench/results
	$(BIN)/python -m bench
	$(BIN)/python -m bench.scan

fuzz: build asan-card  ## 10,000 mutants of each kind and 2,000 random graphs: no crash, no hang, no wrong number
	OPENSPYRE_SANITIZE=1 $(BIN)/python -m fuzz --kind bundles --count 10000
	$(ON_ASAN_CARD) --kind texts --count 10000
	$(ON_ASAN_CARD) --kind bundles --count 10000
	$(ON_ASAN_CARD) --kind programs --count 10000
	OPENSPYRE_SANITIZE=1 OPENSPYRE_FUZZ_BUNDLES=2000 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/foreign/test_random_bundles.py
	OPENSPYRE_SANITIZE=1 OPENSPYRE_FUZZ_MOVES=3000 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/test_bundle_moves.py
	OPENSPYRE_SANITIZE=1 OPENSPYRE_FUZZ_GRAPHS=2000 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/compile/test_random_graphs.py

opinfo: build  ## every sample of OpInfo and module_db of torch on the card, eager and compiled (hours)
	$(BIN)/python tests/opinfo
	$(BIN)/python tests/opinfo --dtypes int64,bool,complex64,float64 --fraction 0.2
	$(BIN)/python tests/opinfo --compiled

clean:  ## remove the build tree and the environment
	rm -rf build $(VENV) bench/results
