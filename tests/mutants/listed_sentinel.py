"""Sabotages of how the master is found among Sentinels and replicas."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FAKES = "tests/topology/test_sentinel_fakes.py"
_CHOICE = "tests/topology/test_sentinel_choice.py"
_ERRORS = "tests/topology/test_sentinel_errors.py"
_REPLICATED = "tests/topology/test_replicated.py"

SENTINEL = (
    Mutant(
        "no role check",
        "a replica is not taken for the master",
        "redisson_py/_redis/stream/stream.py",
        "if self._fails_over and not is_master(facts):",
        "if False and not is_master(facts):",
        (
            f"{_ERRORS}::test_a_replica_is_not_taken_for_the_master",
            f"{_FAKES}::test_a_promoted_server_that_is_no_master_yet_is_asked_again",
        ),
    ),
    Mutant(
        "no switch-master",
        "a demoted master is left when the first Sentinel says so",
        "redisson_py/_redis/topology/finder.py",
        "        if self.master not in (None, address):\n            self._on_elsewhere(reason)\n",
        "",
        (f"{_FAKES}::test_a_message_moves_what_waits_in_order",),
    ),
    Mutant(
        "the first answer wins",
        "a Sentinel that lags behind is outvoted by the epoch",
        "redisson_py/_redis/topology/choice.py",
        "key=lambda answer: (answer.epoch, answer.promoted, names[answer.address]),",
        "key=lambda answer: 0,",
        (f"{_CHOICE}::test_the_highest_epoch_wins_in_any_order_of_answers",),
    ),
    Mutant(
        "the Sentinel that announced a master is not waited for",
        "most may not know of it yet",
        "redisson_py/_redis/topology/sentinels.py",
        "2 * len(named) > len(self._all) and self._informants <= answered.keys()",
        "2 * len(named) > len(self._all)",
        (f"{_FAKES}::test_the_sentinel_that_announced_a_master_is_waited_for",),
    ),
    Mutant(
        "all Sentinels are waited for",
        "a frozen Sentinel costs nothing",
        "redisson_py/_redis/topology/sentinels.py",
        "            if complete or left <= 0 or most:\n",
        "            if complete or left <= 0:\n",
        (f"{_FAKES}::test_a_silent_sentinel_costs_nothing",),
    ),
    Mutant(
        "late answers are forgotten",
        "the only one that knows of a failover is heard",
        "redisson_py/_redis/topology/sentinels.py",
        "if isinstance(answer, Named) and not self._closed and self._knowledge.is_news(answer):",
        "if False:",
        (f"{_FAKES}::test_the_late_answer_of_one_that_knows_more_is_believed",),
    ),
    Mutant(
        "a lost Sentinel stays lost",
        "each Sentinel is listened to",
        "redisson_py/_redis/topology/sentinel.py",
        "if self._again is None and not self._closed and self._kept():",
        "if False:",
        (f"{_FAKES}::test_a_lost_sentinel_is_listened_to_again",),
    ),
    Mutant(
        "a frozen master is waited for",
        "the Sentinels are asked while a master does not greet",
        "redisson_py/_redis/topology/finder.py",
        "await wait_for_all([attempt, news], _ASK_PAUSE_SECONDS, first=True)",
        "await wait_for_all([attempt, news], first=True)",
        (f"{_FAKES}::test_a_frozen_master_does_not_delay_the_change_to_another",),
    ),
    Mutant(
        "any of two masters",
        "two masters are waited out",
        "redisson_py/_redis/topology/replicated.py",
        "            if len(masters) != 1:\n",
        "            if not masters:\n",
        (f"{_REPLICATED}::test_two_masters_are_waited_out",),
    ),
)
