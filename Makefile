PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NATIVE := $(shell find native -name '*.[ch]pp')
NATIVE_TESTS := $(shell find tests/native tests/fuzz -name '*.[ch]pp')
# An editable install knows the packages that it has seen.
PACKAGES := $(shell find src -name __init__.py)
PIP := $(BIN)/pip --disable-pip-version-check -qq
TORCH := 2.13.0
TORCH_STAMP := $(VENV)/.torch-$(TORCH)
INSTALL_TORCH = test -e $(TORCH_STAMP) || { $(PIP) install torch==$(TORCH) expecttest && touch $(TORCH_STAMP); }
FUZZ_CXX ?= clang++
FUZZ_SECONDS ?= 60
FUZZERS := $(patsubst tests/fuzz/%_fuzz.cpp,%,$(wildcard tests/fuzz/*_fuzz.cpp))

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-torch lint format native-test sanitize fuzz soak clean
.PHONY: bench bench-schedules bench-overhead bench-simulate bench-cliffs
.PHONY: build/plain build/asan build/tsan build/fuzz

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(STAMP)  ## .venv with unisono and its tools; the other targets call for it

$(STAMP): pyproject.toml CMakeLists.txt $(NATIVE) $(PACKAGES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install cmake ninja $$($(BIN)/python -c 'import tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	$(PIP) install --no-build-isolation -e '.[dev]'
	touch $@

demo: setup  ## see it work
	mkdir -p build
	$(BIN)/python examples/demo.py build/ring-allreduce.svg
	$(BIN)/unisono run -n 4 examples/train_digits.py

test: lint native-test build/fuzz  ## everything that has to hold before a change is accepted
	@$(INSTALL_TORCH) || echo "torch cannot be installed here: its tests are skipped"
	$(BIN)/pytest -n 4 --dist worksteal

test-torch: setup  ## the suite that torch ships, on gloo and on unisono; takes ten minutes
	@$(INSTALL_TORCH)
	$(BIN)/python tests/torch/suite.py

lint: setup  ## style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/clang-format --dry-run -Werror $(NATIVE) $(NATIVE_TESTS)

format: setup  ## rewrite the sources in our style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(NATIVE) $(NATIVE_TESTS)

native-test: build/plain  ## the C++ tests

sanitize: build/asan build/tsan  ## the C++ tests under the address, undefined-behaviour and thread sanitizers

build/asan: SANITIZE := address,undefined
build/tsan: SANITIZE := thread
build/plain build/asan build/tsan: setup
	$(BIN)/cmake -S . -B $@ -G Ninja --log-level=WARNING \
	    -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DUNISONO_SANITIZE=$(SANITIZE)
	$(BIN)/cmake --build $@
	$(BIN)/ctest --test-dir $@ --output-on-failure --no-tests=error

fuzz: build/fuzz  ## search for bytes and programs that the core cannot cope with; FUZZ_SECONDS=3600 for each fuzzer
	@test ! -d build/fuzz || for name in $(FUZZERS); do \
	    echo "$$name: new inputs go to build/fuzz/corpus/$$name"; mkdir -p build/fuzz/corpus/$$name; \
	    build/fuzz/tests/fuzz/$${name}_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=512 -timeout=25 \
	        -verbosity=0 -print_final_stats=1 -artifact_prefix=build/fuzz/$$name- \
	        build/fuzz/corpus/$$name tests/fuzz/corpus/$$name || exit 1; \
	done

build/fuzz: setup
	@if echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' | \
	    $(FUZZ_CXX) -x c++ -fsanitize=fuzzer,address,undefined -o /dev/null - 2>/dev/null; then \
	    $(BIN)/cmake -S . -B $@ -G Ninja --log-level=WARNING -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
	        -DCMAKE_CXX_COMPILER=$(FUZZ_CXX) -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
	        -DUNISONO_FUZZ=ON -DUNISONO_SANITIZE=address,undefined && $(BIN)/cmake --build $@; \
	else \
	    echo "$(FUZZ_CXX) with libFuzzer is not here (Debian: clang libclang-rt-dev): nothing is fuzzed"; \
	fi

soak: setup  ## the randomised tests at full length
	UNISONO_SOAK=1 $(BIN)/pytest -n 2 -m soak --timeout 7200

bench: setup  ## allreduce against the peers that are in PEERS (see docs/bench.md); BENCH='--ranks 8' for other options
	$(BIN)/unisono bench $(if $(PEERS),--peers $(PEERS)) $(BENCH)

bench-schedules: setup  ## what unrolling, verifying and pricing cost
	$(BIN)/python benchmarks/schedules.py

bench-overhead: setup  ## what a call costs besides its work
	$(BIN)/python benchmarks/overhead.py

bench-simulate: setup  ## how fast the simulator is; SIMGRID=/usr/bin/python3 for what SimGrid says
	$(BIN)/python benchmarks/simulate.py $(if $(SIMGRID),--simgrid $(SIMGRID))

bench-cliffs: setup  ## where a little more takes much longer
	$(BIN)/python benchmarks/cliffs.py

clean:  ## remove what these targets made
	rm -rf $(VENV) $(VENV)-mpi build .*_cache .hypothesis
