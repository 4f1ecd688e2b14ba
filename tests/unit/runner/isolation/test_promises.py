"""Which level holds, by what the attack managed."""

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.isolation.confinement import LEVELS, Level
from runner.isolation.promises import (
    MEANINGS,
    NETWORK,
    PROMISES,
    Attack,
    Verdict,
    broken_promises,
    holding_level,
    is_enough,
    rank,
)

levels = st.sampled_from(LEVELS)
managed_attacks = st.sets(st.sampled_from(get_args(Attack)))


def verdict(
    claimed: Level, managed: set[str] | None = None, *, network: bool = True, unusable: str | None = None
) -> Verdict:
    return Verdict(claimed, "as tested", dict.fromkeys(managed or (), "seen"), unusable, network)


def test_a_level_holds_if_every_attack_fails() -> None:
    for level in LEVELS:
        assert holding_level(level, (), network=False) == level


@pytest.mark.parametrize(
    ("managed", "holds"),
    [
        ("secret_found", "none"),
        ("runner_memory", "none"),
        ("survivor", "none"),
        ("runner_signals", "process"),
        ("secrets_directory", "process"),
        ("program_writable", "process"),
        ("runner_visible", "landlock"),
    ],
)
def test_one_attack_that_works_lowers_the_level_to_what_does_not_promise_against_it(managed: str, holds: Level) -> None:
    assert holding_level("namespace", {managed}, network=True) == holds


@given(levels, managed_attacks, st.booleans())
def test_a_level_never_rises_above_what_was_set_up(claimed: Level, managed: set[str], network: bool) -> None:
    assert LEVELS.index(holding_level(claimed, managed, network=network)) <= LEVELS.index(claimed)


@given(levels, managed_attacks, st.sampled_from(get_args(Attack)), st.booleans())
def test_a_further_attack_that_works_never_raises_the_level(
    claimed: Level, managed: set[str], further: str, network: bool
) -> None:
    before = LEVELS.index(holding_level(claimed, managed, network=network))
    assert LEVELS.index(holding_level(claimed, managed | {further}, network=network)) <= before


@given(levels, managed_attacks, st.booleans())
def test_what_holds_has_no_broken_promise(claimed: Level, managed: set[str], network: bool) -> None:
    assert not broken_promises(holding_level(claimed, managed, network=network), managed, network=network)


def test_each_level_promises_all_that_a_weaker_one_does() -> None:
    for weaker, stronger in pairwise(LEVELS):
        assert PROMISES[weaker] <= PROMISES[stronger]
        assert NETWORK[weaker] <= NETWORK[stronger]


def test_every_attack_has_a_meaning_in_words() -> None:
    assert set(MEANINGS) == set(get_args(Attack))


def test_a_network_that_was_to_be_off_and_is_not_is_never_enough() -> None:
    assert not is_enough("none", verdict("none", {"network"}, network=False))
    assert not is_enough("none", verdict("namespace", {"network"}, network=False))
    assert is_enough("none", verdict("none", {"network"}, network=True))


def test_a_lower_level_than_required_is_not_enough() -> None:
    assert not is_enough("namespace", verdict("landlock"))
    assert is_enough("landlock", verdict("landlock"))
    assert is_enough("process", verdict("namespace"))
    assert not is_enough("process", verdict("namespace", {"secret_found"}))


def test_a_confinement_in_which_nothing_works_holds_nothing_and_comes_last() -> None:
    broken = verdict("namespace", unusable="it does not start")
    assert broken.holds == "none"
    assert max([broken, verdict("none")], key=rank) == verdict("none")


def test_of_confinements_that_hold_the_same_the_one_set_up_to_hold_more_is_used() -> None:
    both = [verdict("process", {"secret_found"}), verdict("namespace", {"secret_found"})]
    assert max(both, key=rank).claimed == "namespace"
