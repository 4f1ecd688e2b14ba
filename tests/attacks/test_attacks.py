"""What a tool can and cannot do at each level, found out by doing it. docs/isolation.md has the table.

At `namespace` with `network: false` every attack fails, as root and as an ordinary user. What the other levels promise
is read from the table, so that the document cannot promise more than holds.
"""

import pytest

from runner.isolation.confinement import Level
from tests.attacks.attacking import STAGES, Attacked, attack
from tests.attacks.table import PROMISED, attacks_of_table

pytestmark = pytest.mark.timeout(180)

LEAVING = [
    "leave_a_background_process",
    "leave_a_double_fork",
    "leave_one_that_ignores_sigterm",
    "leave_one_with_closed_pipes",
    "fork_bomb",
]


def attacked(level: Level, user: str) -> Attacked:
    found = attack(level, user)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.mark.parametrize("user", ["root", "ordinary"])
@pytest.mark.parametrize("name", attacks_of_table())
def test_in_a_namespace_without_network_every_attack_fails(name: str, user: str) -> None:
    assert attacked("namespace", user).results[name] is None


@pytest.mark.parametrize(("level", "user"), STAGES)
@pytest.mark.parametrize("name", attacks_of_table())
def test_what_the_table_says_holds_at_a_level_does_hold(name: str, level: Level, user: str) -> None:
    if PROMISED[name][level, user] == "holds":
        assert attacked(level, user).results[name] is None


@pytest.mark.parametrize(("level", "user"), STAGES)
@pytest.mark.parametrize("name", attacks_of_table())
def test_what_the_table_says_is_open_can_be_done(name: str, level: Level, user: str) -> None:
    if PROMISED[name][level, user] == "open":
        assert attacked(level, user).results[name] is not None


@pytest.mark.parametrize(("level", "user"), STAGES)
@pytest.mark.parametrize("name", LEAVING)
def test_no_process_is_left_whatever_it_did(name: str, level: Level, user: str) -> None:
    assert attacked(level, user).results[name] is None


@pytest.mark.parametrize(("level", "user"), [stage for stage in STAGES if stage[0] != "none"])
def test_the_start_up_attack_finds_what_the_attack_suite_finds(level: Level, user: str) -> None:
    found = attacked(level, user)
    pairs = {
        "read_runner_memory": "runner_memory",
        "read_runner_descriptors": "runner_descriptors",
        "trace_runner": "runner_traced",
        "signal_runner": "runner_signals",
        "see_runner": "runner_visible",
        "read_secrets_directory": "secrets_directory",
        "read_session_log": "session_log",
        "read_launch_spec": "launch_spec",
        "reach_network": "network",
        "reach_abstract_sockets": "abstract_sockets",
        "start_too_many": "process_limit",
    }
    suite = {name for name in pairs if found.results[name] is not None}
    self_test = {name for name, attack_id in pairs.items() if attack_id in found.self_test}
    assert self_test == suite


def test_every_attack_of_the_suite_is_in_the_table_and_the_other_way_round() -> None:
    assert set(attacked("none", "ordinary").results) == set(attacks_of_table())
