# `make` or `make help` lists what can be typed. Every verb sets up what it needs.
#   PYTHON=…   the Python (3.11 or newer) that .venv is made with
#   FUZZ_S=60  seconds for each harness of `make fuzz`; FUZZ="session --seed 1 --case 2": its options
#   CUTS=200   power cuts of `make power-cuts`; SEED=…: the same moments again
#   BUDGET=…   seconds for each `tune` and `bench` of a tutorial
#   IMAGE=…    the image, such as vta-sim, in a container of which a tutorial is walked; else on this host
#   DISTRIBUTION=--no-container  `make release` checks in a virtual environment alone
#   DEPS=skip  leave the system's packages alone
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
MODEL ?= zoo:mobilenet
OUT ?= build
# A file's tests share what they have built. Nothing is run again: a test that needs an idle machine is a bug.
WORKERS ?= -n 2 --dist loadfile
export PYTHON DEPS
# What Python and pytest compile is kept beside other build output, whatever the caller's environment says:
# else every process of the tests would compile this project anew.
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help deps venv ssh demo demo-edge-rt demo-board demo-functions demo-venv demo-compilers images test test-all test-fresh check release power-cuts fuzz sanitize lock docs site bench bench-cpu bench-networks bench-integers bench-compiling bench-growth bench-arm bench-opencl bench-cuda bench-vta bench-field clean

help: ## this list
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

deps: ## install missing system packages (Debian, Ubuntu): for emulated boards, or DEPS_FOR=all; DEPS=skip: none
	@tools/deps.sh $(or $(DEPS_FOR),boards)

venv: ## make .venv from requirements.lock
	@tools/deps.sh venv
	@tools/venv.sh

ssh: venv
	@tools/deps.sh openssh-client

# Compiling edge-rt takes longest: all that can be done meanwhile is done meanwhile.
demo: ## the whole way for one network (MODEL=…), on an emulated board, with a report
	@tools/deps.sh venv
	@$(MAKE) -j4 demo-edge-rt deps demo-board demo-functions
	@$(BIN)/toolchain demo $(MODEL)

demo-compilers:
	@tools/venv.sh compilers

demo-venv: demo-compilers
	@tools/venv.sh demo

demo-edge-rt: demo-compilers
	@echo "demo: compiling edge-rt for aarch64 while the rest is installed" >&2
	@$(BIN)/python -c 'from toolchain.runtime import ensure_runtime; ensure_runtime("aarch64")'

# These two the demo does, too, if they fail here, and says why.
demo-board: deps demo-venv
	@timeout 20 docker version >/dev/null 2>&1 && $(BIN)/toolchain image build board-arm64 || true

demo-functions: demo-venv
	@[ -d build/demo ] || $(BIN)/toolchain build $(MODEL) --board rk3399 --engine host -o build/demo >/dev/null 2>&1 || true

images: venv deps ## make every image that is absent or out of date
	@$(BIN)/toolchain image build

image-%: venv deps ## make image % and what it stands on, such as image-aarch64
	@$(BIN)/toolchain image build $*

tune-%: ssh ## tune MODEL for board %, such as tune-local
	@$(BIN)/toolchain tune $(MODEL) --board $*

provision-%: ssh ## make board % ready to run networks, such as provision-rk3399
	@$(BIN)/toolchain board provision $*

build-%: venv ## compile MODEL into a bundle for board or class %, such as build-rk3399
	@$(BIN)/toolchain build $(MODEL) --board $* -o $(OUT)

tutorial-%: venv tutorial-deps ## type the commands of docs/tutorials/%.md: tutorial-first-day, tutorial-cpu, tutorial-cuda, tutorial-field, tutorial-mali, tutorial-vta
	@$(if $(IMAGE),$(BIN)/toolchain image build $(IMAGE))
	@$(BIN)/python docs/walk.py docs/tutorials/$*.md $(if $(BUDGET),--budget $(BUDGET) )$(if $(IMAGE),--image $(IMAGE))

test: test-tools ## what CI runs: linters, types, layers and the tests
	@$(MAKE) -j2 lint runtimes
	$(BIN)/python -m pytest $(WORKERS) -m "not full" $(PYTEST)

test-all: test-tools engines ## the tests and every network on every class; the result goes to docs/test-all.md
	@$(MAKE) -j2 lint runtimes
	$(BIN)/python -m pytest $(WORKERS) --hypothesis-profile=drawn -p tests.result_table --result-table docs/test-all.md $(PYTEST)

test-fresh: all-deps ## `make test` in a clone of HEAD, with an empty HOME and a Docker engine without images (as root)
	@tools/fresh.sh make test $(if $(PYTEST),PYTEST='$(PYTEST)')

check: test-tools ## linters, types, layers and the fast tests; under a minute
	@$(MAKE) lint
	$(BIN)/python -m pytest $(WORKERS) --hypothesis-profile=quick -q -m "not slow and not full" $(PYTEST)

release: deps venv sbom mkdocs ## wheel, sdist, bill of materials, site and checksums of this commit in dist/, checked as a user would; publishes nothing
	@$(BIN)/python -m tools.distribution $(DISTRIBUTION)

power-cuts: all-deps venv ## cut a machine's power CUTS=200 times in the middle of an update (SEED=…: at which moments)
	@nice -n 10 $(BIN)/python -m tests.machines.cuts --cuts $(or $(CUTS),200) $(if $(SEED),--seed $(SEED))

cuda: venv ## install NVIDIA's compiler for CUDA into .venv (600 MB), for builds with `--device cuda` on this host
	@tools/cuda.sh

.PHONY: lint runtimes servers browser engines cuda mkdocs sbom tidy test-tools all-deps tutorial-deps
all-deps:
	@tools/deps.sh all

tutorial-deps:
	@tools/deps.sh armv7 opencl

test-tools: all-deps venv cuda servers browser mkdocs sbom tidy

tidy: venv
	@tools/environment.sh tests/fuzz/tidy.lock build/tidy

sbom: venv
	@tools/environment.sh --on-top tools/distribution/sbom.lock .venv/sbom

servers: venv
	@tools/servers.sh

browser: venv
	@tools/browser.sh

mkdocs: venv
	@tools/environment.sh docs/site/requirements.lock build/mkdocs

engines: venv
	@tools/engines.sh

runtimes:
	@$(BIN)/python -m tests.compile_runtimes

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: all-deps venv ## minutes of what no honest peer says (FUZZ_S=60 seconds each), against a sanitized edge-rt if g++ is here
	@EDGE_RT=$$($(BIN)/python -m tests.fuzz.sanitized) || { echo "fuzz: edge-rt without sanitizers" >&2; EDGE_RT=; }; \
	EDGE_RT=$$EDGE_RT $(BIN)/python -m tests.fuzz $(FUZZ)

sanitize: venv tidy ## compile edge-rt with address and undefined-behaviour sanitizers into build/sanitized; what clang-tidy says of it
	@$(BIN)/python -m tests.fuzz.tidy
	@$(BIN)/python -m tests.fuzz.sanitized

lock: venv ## write requirements.lock from pyproject.toml; versions stay where they still fit
	@tools/lock.sh

docs: venv ## write docs/reference and docs/pictures from the code, docs/silicon.md from docs/silicon
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/draw.py
	@$(BIN)/python docs/silicon_page.py

site: mkdocs ## make the documentation a site, build/site/index.html, that works without a network; check its links
	@rm -rf build/site.new
	@NO_MKDOCS_2_WARNING=1 build/mkdocs/bin/mkdocs build --strict --site-dir build/site.new
	@$(BIN)/python docs/site/check.py build/site.new
	@rm -rf build/site
	@mv build/site.new build/site

bench: venv ## how fast the command line starts
	@$(BIN)/python benchmarks/startup.py

bench-cpu: venv ## our CPU code against onnxruntime, OpenVINO, ncnn and MNN (BENCH="--help": its options)
	@tools/environment.sh --on-top benchmarks/requirements.lock .venv-bench
	@$(BIN)/python benchmarks/cpu.py $(BENCH)

bench-networks: venv ## our CPU code against onnxruntime over networks outside the zoo (BENCH="--help": its options)
	@$(BIN)/python benchmarks/networks.py $(BENCH)

bench-integers: venv ## networks in 8-bit integers beside onnxruntime and our float32 (BENCH="--help": its options)
	@$(BIN)/python benchmarks/int8.py $(BENCH)

bench-compiling: venv ## what it costs to build networks of hundreds of functions (BENCH="--help": its options)
	@$(BIN)/python benchmarks/compiling.py $(BENCH)

bench-growth: venv ## what grows with it, in CPU seconds: BENCH=records, boards, functions
	@$(BIN)/python -m benchmarks.growth $(BENCH)

bench-arm: venv ## the instructions that Arm cores execute, ours beside onnxruntime and ncnn (BENCH="--help": its options)
	@tools/deps.sh counts
	@tools/environment.sh --on-top benchmarks/requirements.lock .venv-bench
	@$(BIN)/python -m benchmarks.arm.instructions $(BENCH)

bench-opencl: venv ## networks on OpenCL devices in numbers: BENCH=launches, start, size, counts, model, against, candidates
	@tools/deps.sh opencl
	@$(BIN)/python benchmarks/opencl.py $(BENCH)

bench-cuda: venv cuda ## networks on NVIDIA's GPUs beside PyTorch: BENCH="--pack DIR", "--figures FILE", "--report RESULTS"
	@$(BIN)/python benchmarks/cuda.py $(BENCH)

bench-vta: venv ## networks on a VTA in numbers, by the model and on this host: BENCH=region, simulation, generation, trials, quantisers
	@tools/deps.sh armv7
	@$(BIN)/python benchmarks/vta.py $(BENCH)

bench-field: all-deps venv servers ## releases on boards in numbers: link, memory, service, a rollout to 200 boards (BENCH="--quick": without those)
	@$(BIN)/python -m benchmarks.field $(BENCH)

clean: ## remove what make made here: .venv, build folders, tools' caches
	rm -rf .venv .venv-bench build dist demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
