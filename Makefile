# What people and CI do with a checkout. Every target sets up what it needs, in
# virtual environments inside the checkout, and does nothing twice: `make demo` and
# `make test` need the network the first time only.

PYTHON ?= python3
DEMO := .venv-demo
DEV := .venv
LOWEST := .venv-lowest
DURATION ?= 20s
TENSORRT := .tensorrt
RTX_VERSION := 1.7.1.116

# Through its links, so that the same line serves a checkout and an sdist.
PACKAGE := src
SOURCES := $(shell find -L $(PACKAGE) \( -name __pycache__ -o -name '*.egg-info' \) \
	-prune -o -type f -print)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DELETE_ON_ERROR:
# Two targets would build the package in the same folder.
.NOTPARALLEL:
.PHONY: help demo test lowest check lint format types contracts wheels bench install \
	tensorrt lock clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##/\1\t/p' Makefile | expand -t 12

# A bench whose verdict is INVALID exits with 1. It says why, and on a machine that is
# too slow or too busy for good numbers that is no reason for make to call it an error.
demo: $(DEMO)/package  ## run the main job on real footage and show what came out
	$(DEMO)/bin/edgepipe bench --duration $(DURATION) -c demo || [ $$? = 1 ]

test: $(DEV)/ready  ## run the whole test suite, with coverage
	$(DEV)/bin/coverage run -m pytest
	$(DEV)/bin/coverage report

# The oldest releases that pyproject.toml allows; name the oldest Python, too.
lowest: $(DEV)/ready | $(LOWEST)/bin/python  ## run the tests with the oldest libraries
	$(DEV)/bin/uv pip compile -q pyproject.toml --resolution lowest-direct \
	  --extra jpeg --extra models --extra robot --extra samples --python $(LOWEST)/bin/python -o $(LOWEST)/pins.txt
	$(DEV)/bin/uv pip install -q --python $(LOWEST)/bin/python -r $(LOWEST)/pins.txt
	$(DEV)/bin/uv pip install -q --python $(LOWEST)/bin/python -c $(LOWEST)/pins.txt \
	  --group dev -e . --no-build-isolation-package edgepipe
	$(LOWEST)/bin/python -m pytest

check: lint types contracts  ## everything about the code that needs no run

lint: $(DEV)/ready  ## style
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .

format: $(DEV)/ready  ## put the style right
	$(DEV)/bin/ruff check --fix .
	$(DEV)/bin/ruff format .

types: $(DEV)/ready  ## mypy and pyright, both strict
	$(DEV)/bin/mypy
	$(DEV)/bin/pyright --warnings --pythonpath $(DEV)/bin/python

contracts: $(DEV)/ready  ## which part may import which
	$(DEV)/bin/lint-imports

# One line for each Python on each processor. openvino's aarch64 wheel wants glibc
# 2.35, that of JetPack 6; everything else is content with 2.28.
wheels: $(DEV)/ready  ## ask the package index for a wheel of every constraint
	@for platform in x86_64-manylinux_2_28 aarch64-manylinux_2_35; do \
	  for version in 3.10 3.11 3.12 3.13; do \
	    echo "Python $$version on $$platform"; \
	    $(DEV)/bin/uv pip compile --quiet --no-deps --only-binary :all: \
	      --no-python-downloads --python-version $$version \
	      --python-platform $$platform constraints.txt >/dev/null || exit 1; \
	  done; \
	done

bench: $(DEV)/ready  ## ten seconds of the main job; the ledger must balance
	$(DEV)/bin/python tools/short_bench.py

# TensorRT for RTX builds plans without a GPU; of TensorRT 10 and 11 the bindings say
# what they are called. All are NVIDIA's under NVIDIA's terms: 97 MB to download.
tensorrt: $(DEV)/ready  ## bring the libraries with which the tests build plans
	$(DEV)/bin/pip install -q --no-deps --upgrade --target $(TENSORRT)/rtx \
	  tensorrt-rtx-cu13-libs==$(RTX_VERSION) tensorrt-rtx-cu13-bindings==$(RTX_VERSION)
	$(DEV)/bin/pip install -q --no-deps --upgrade --target $(TENSORRT)/10 \
	  tensorrt-cu12-bindings==10.13.0.35
	$(DEV)/bin/pip install -q --no-deps --upgrade --target $(TENSORRT)/11 \
	  tensorrt-cu13-bindings==11.4.0.106
	$(DEV)/bin/pip install -q --no-deps --upgrade --target $(TENSORRT)/types \
	  tensorrt-stubs==10.13.0.35.1

install:  ## install into PYTHON, keeping an OpenCV that is already there
	$(PYTHON) tools/install.py

lock: $(DEV)/ready  ## resolve constraints.txt anew
	$(DEV)/bin/python tools/lock.py

clean:  ## remove what the other targets made
	rm -rf $(DEMO) $(DEV) $(LOWEST) $(TENSORRT) build dist src/*.egg-info .coverage* .hypothesis \
	  .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find -L $(PACKAGE) tests tools -name __pycache__ -prune -exec rm -r {} +

# A virtual environment. Its interpreter is a link, so one whose Python was removed
# or replaced counts as missing and is made again.
%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "edgepipe needs Python 3.10 or newer; $(PYTHON) is" \
	    "$$($(PYTHON) --version 2>/dev/null || echo not there)." \
	    "Name another: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu:" \
	    "sudo apt install python3-venv" >&2; \
	  exit 1; }
	$(PYTHON) -m venv --clear $*

# The demo has what a user has: the package itself, not a link to the checkout.
$(DEMO)/dependencies: pyproject.toml constraints.txt | $(DEMO)/bin/python
	@echo "Installing into $(DEMO): about 270 MB to download, once."
	$(DEMO)/bin/pip install -q -c constraints.txt 'setuptools>=77'
	$(DEMO)/bin/pip install -c constraints.txt --no-build-isolation '.[samples]'
	@touch $@

# setuptools keeps deleted modules in build/ and would install them again.
$(DEMO)/package: $(DEMO)/dependencies $(SOURCES)
	@rm -rf build
	$(DEMO)/bin/pip install -q --no-index --no-deps --no-build-isolation \
	  --force-reinstall .
	@rm -rf build
	@touch $@

# pip learned --group in 25.1; Debian's is older.
$(DEV)/ready: pyproject.toml constraints.txt | $(DEV)/bin/python
	$(DEV)/bin/python -m pip install -q 'pip>=25.1' -c constraints.txt 'setuptools>=77'
	$(DEV)/bin/pip install -q -c constraints.txt --group dev --no-build-isolation \
	  -e '.[jpeg,models,robot,samples]'
	@touch $@
