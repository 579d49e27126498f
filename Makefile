# The front door. Every target first sets up what is missing, then drives the CMake presets; `make help` lists them.
PRESET ?= ci
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
SETUP ?= yes
BUILD := build/release
PROGRAMS := $(BUILD)/bin
CTEST := ctest --output-on-failure -j $(JOBS)
SOURCES = $(shell git ls-files '*.cpp' '*.h')
UNITS = $(filter %.cpp,$(SOURCES))

.DEFAULT_GOAL := all
.PHONY: all help setup setup-tools configure test train install bench compare compare-programs golden soak asan ubsan tsan format format-check tidy clean

all: configure ## the library and the command line
	cmake --build $(BUILD) -j $(JOBS) --target thalweg thalweg_cli

help: ## this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

setup: ## what the build needs (SETUP=no: you brought it yourself)
	@if [ "$(SETUP)" != no ]; then scripts/setup.sh; fi

setup-tools: setup
	@if [ "$(SETUP)" != no ]; then scripts/setup.sh tools; fi

configure: setup
	@cmake --preset $(PRESET)

test: configure ## build everything and run all tests
	cmake --build $(BUILD) -j $(JOBS)
	$(CTEST) --test-dir $(BUILD)

train: configure ## train a CNN on Fashion-MNIST to more than 90 %, report in runs/
	cmake --build $(BUILD) -j $(JOBS) --target thalweg_cli
	$(PROGRAMS)/thalweg train cnn --data fashion-mnist --epochs 6 --batch 128 --lr 2e-3 --schedule one-cycle --memory-budget 64MiB --seed 1

install: all ## into PREFIX (default /usr/local); DESTDIR is honoured
	DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX) --strip

bench: configure ## benchmarks, all or BENCH=name
	cmake --build $(BUILD) -j $(JOBS) --target benchmarks
	@for program in $(PROGRAMS)/$(or $(BENCH),*)_bench; do echo "== $${program##*/}"; $$program || exit 1; done

compare-programs: configure
	cmake --build $(BUILD) -j $(JOBS) --target thalweg_cli limits

compare: compare-programs ## times against PyTorch, TensorFlow and JAX, all or WORKLOADS="mlp cnn"; installs them into build/peers
	scripts/compare $(WORKLOADS)

golden: configure ## golden cases of the folder GOLDEN=DIR
	@test -n "$(GOLDEN)" || { echo "usage: make golden GOLDEN=DIR" >&2; exit 2; }
	cmake --build $(BUILD) -j $(JOBS) --target golden_runner
	$(PROGRAMS)/golden_runner $(GOLDEN)

soak: configure ## long runs, all or SOAK=name
	cmake --build $(BUILD) -j $(JOBS)
	ctest --test-dir $(BUILD) -C soak -L soak --no-tests=error --verbose $(if $(SOAK),-R $(SOAK))

asan ubsan tsan: setup ## all tests under a sanitizer
	cmake --preset $@
	cmake --build build/$@ -j $(JOBS)
	$(CTEST) --test-dir build/$@

format: setup-tools ## clang-format all sources in place
	@clang-format-14 -i $(SOURCES)

format-check: setup-tools ## fail if make format would change something
	@clang-format-14 --dry-run -Werror $(SOURCES)

tidy: configure setup-tools ## clang-tidy all sources
	@printf '%s\n' $(UNITS) | xargs -P $(JOBS) -n 4 clang-tidy-14 -p $(BUILD) --quiet

clean: ## remove what was built, keep what was downloaded
	rm -rf $(BUILD) build/asan build/ubsan build/tsan build/no-onednn
