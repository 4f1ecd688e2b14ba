"""The small decisions: environment, limits, user, paths, process table, exit status, network filter, groups, routes."""

import itertools
import os
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.doctor import closed_folder, route_to
from runner.isolation.call_filter import call_filter
from runner.isolation.cgroup import pids_parents, remove_left
from runner.isolation.confinement import Level
from runner.isolation.environment import ALLOWED, loader_variables, tool_environment
from runner.isolation.establish import too_weak
from runner.isolation.grounds import lies_in, outermost
from runner.isolation.limits import Limits, rlimits
from runner.isolation.port import ExitStatus
from runner.isolation.process_table import ProcessRow, descendants, parse_stat, strays
from runner.isolation.promises import Verdict
from runner.isolation.self_test import Attacked, judge
from runner.isolation.settings import IsolationSettings
from runner.isolation.tool_process import exit_status
from runner.isolation.tool_user import COUNT, FIRST, ToolUser, choose_user


def environment(environ: dict[str, str], **extra: str) -> dict[str, str]:
    return tool_environment(environ, home="/h", temporary="/t", extra=extra, secret_values=["s3cret-value"])


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_only_names_that_are_known_to_be_harmless_reach_a_tool(environ: dict[str, str]) -> None:
    allowed = ALLOWED | {"HOME", "TMPDIR", "SHELL", "TERM", "USER", "LOGNAME"}
    assert {name for name in environment(environ) if not name.startswith("LC_")} <= allowed


def test_credentials_and_proxies_stay_out() -> None:
    given_names = {
        "OPENAI_API_KEY": "x",
        "HTTPS_PROXY": "http://u:p@proxy",
        "SSH_AUTH_SOCK": "/s",
        "LD_PRELOAD": "/x.so",
    }
    assert not set(environment(given_names)) & set(given_names)


def test_an_allowed_variable_that_holds_a_secret_stays_out() -> None:
    assert "LC_NOTE" not in environment({"LC_NOTE": "the s3cret-value"})


def test_variables_that_change_how_programs_are_loaded_are_known() -> None:
    assert loader_variables(["LD_PRELOAD", "TOKEN", "ENV", "BASH_FUNC_x%%"]) == ["BASH_FUNC_x%%", "ENV", "LD_PRELOAD"]


def test_what_a_command_needs_beside_is_passed_on() -> None:
    assert environment({}, TOKEN="s3cret-value")["TOKEN"] == "s3cret-value"


def test_limits_are_in_the_kernels_units_and_count_what_the_user_runs_already() -> None:
    found = rlimits(Limits(memory_mb=2, file_mb=1, processes=10, cpu_s=3), running=5)
    assert found["RLIMIT_AS"] == (2 * 1024 * 1024, 2 * 1024 * 1024)
    assert found["RLIMIT_FSIZE"] == (1024 * 1024, 1024 * 1024)
    assert found["RLIMIT_NPROC"] == (15, 15)
    assert found["RLIMIT_CORE"] == (0, 0)
    assert found["RLIMIT_CPU"][0] == 3
    assert "RLIMIT_CPU" not in rlimits(Limits(), 0)


def test_tools_run_as_the_owner_of_the_workspace() -> None:
    assert choose_user(ToolUser(1000, 100), {1000}, seed=1) == ToolUser(1000, 100)


@given(st.integers(min_value=0), st.sets(st.integers(FIRST, FIRST + COUNT - 1), max_size=50))
def test_a_workspace_of_roots_gets_a_user_that_nobody_runs_as(seed: int, taken: set[int]) -> None:
    user = choose_user(ToolUser(0, 0), taken, seed)
    assert user.uid not in taken
    assert FIRST <= user.uid < FIRST + COUNT
    assert user.of_the_run


def test_a_path_lies_in_its_folder_but_not_in_one_whose_name_it_only_begins_with() -> None:
    assert lies_in("/a/b", "/a")
    assert lies_in("/a", "/a")
    assert lies_in("/a", "/")
    assert not lies_in("/ab", "/a")


def test_places_inside_others_are_named_once() -> None:
    assert outermost(["/x", "/x/y", "/usr/lib/python", "/z", "/x"], ["/usr"]) == ("/x", "/z")


def stat_line(pid: int, name: str, state: str, parent: int, session: int) -> bytes:
    return f"{pid} ({name}) {state} {parent} 7 {session} {'0 ' * 13}3 0 4242 9 9".encode()


@given(st.text(alphabet=st.characters(codec="latin-1", exclude_characters="\0"), max_size=15))
def test_a_process_is_read_whatever_it_calls_itself(name: str) -> None:
    row = parse_stat(stat_line(12, name, "S", 3, 5))
    assert row == ProcessRow(pid=12, parent=3, session=5, threads=3, started=4242, zombie=False)


def test_a_cut_line_is_no_process() -> None:
    with pytest.raises(ValueError, match="few"):
        parse_stat(b"12 (x) S 1")


def row(pid: int, parent: int, session: int = 1, *, zombie: bool = False) -> ProcessRow:
    return ProcessRow(pid, parent, session, 1, 0, zombie)


def table(*rows: ProcessRow) -> dict[int, ProcessRow]:
    return {each.pid: each for each in rows}


def test_descendants_are_found_at_any_depth_and_loops_end() -> None:
    found = descendants(table(row(1, 0), row(2, 1), row(3, 2), row(4, 9), row(5, 6), row(6, 5)), [1])
    assert found == {2, 3}
    assert descendants(table(row(5, 6), row(6, 5)), [5]) == {5, 6}


def test_a_child_of_another_session_that_was_not_started_here_is_a_stray() -> None:
    seen = table(row(10, 1, 10), row(11, 10, 11), row(12, 10, 10), row(13, 10, 13))
    assert strays(seen, {10}, known={13}) == {11}


@pytest.mark.parametrize(
    ("returncode", "as_codes", "expected"),
    [
        (0, False, ExitStatus(0, None)),
        (-9, False, ExitStatus(None, "SIGKILL")),
        (137, False, ExitStatus(137, None)),
        (137, True, ExitStatus(None, "SIGKILL")),
        (153, True, ExitStatus(None, "SIGXFSZ")),
        (255, True, ExitStatus(255, None)),
        (1, True, ExitStatus(1, None)),
        (-64, False, ExitStatus(None, "SIGRTMAX")),
        (-40, False, ExitStatus(None, "SIG40")),
    ],
)
def test_how_a_process_ended_is_either_a_code_or_a_signal(
    returncode: int, as_codes: bool, expected: ExitStatus
) -> None:
    assert exit_status(returncode, signals_as_codes=as_codes) == expected


def test_the_filter_jumps_inside_itself_and_is_there_for_known_machines_only() -> None:
    for machine, network in itertools.product(("x86_64", "aarch64"), (True, False)):
        program = call_filter(machine, network=network)
        assert program is not None
        instructions = list(struct.iter_unpack("=HBBI", program))
        for index, (_, if_true, if_false, _) in enumerate(instructions[:-1]):
            assert index + 1 + max(if_true, if_false) < len(instructions)
    assert call_filter("vax", network=False) is None


def test_the_own_group_is_looked_for_where_either_version_puts_it() -> None:
    assert pids_parents(["8:pids:/a", "3:cpu:/b", "0::/c"]) == [
        Path("/sys/fs/cgroup/pids/a"),
        Path("/sys/fs/cgroup/c"),
        Path("/sys/fs/cgroup/unified/c"),
    ]


def test_groups_of_runners_that_are_gone_are_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (f"pipeline-tools-{os.getpid()}", f"pipeline-tools-{gone.pid}", f"others-{gone.pid}"):
        (tmp_path / name).mkdir()
    remove_left(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"pipeline-tools-{os.getpid()}", f"others-{gone.pid}"}


ROUTES = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 0102A8C0 0003 0 0 0 00000000 0 0 0
link 0000FEA9 00000000 0001 0 0 0 0000FFFF 0 0 0
"""


def test_the_most_specific_route_is_the_way() -> None:
    assert route_to("169.254.169.254", ROUTES) == "link"
    assert route_to("10.0.0.1", ROUTES) == "eth0"
    assert route_to("169.254.169.254", ROUTES.splitlines()[0]) is None


def attacked(*texts: tuple[str, str], arrived: bool = False, survivor: bool = False) -> Attacked:
    return Attacked({}, texts, None, arrived, survivor)


def test_a_secrets_value_in_what_was_read_is_found_and_never_shown() -> None:
    managed = judge(attacked(("/proc/7/environ", "A=1\0KEY=s3cret-value")), {"key": "s3cret-value"})
    assert managed == {"secret_found": "secret key in /proc/7/environ"}


def test_one_line_of_a_secret_of_several_is_enough_and_short_ones_are_chance() -> None:
    assert judge(attacked(("x", "..second-line..")), {"key": "first-line\nsecond-line"})
    assert not judge(attacked(("x", "abc")), {"key": "abc"})


def test_what_only_the_runner_can_see_counts_too() -> None:
    assert judge(attacked(arrived=True, survivor=True), {}).keys() == {"network", "survivor"}


def test_the_folder_that_keeps_others_from_the_interpreter_is_named(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    tmp_path.chmod(0o755)
    (tmp_path / "closed").chmod(0o700)
    assert closed_folder(inner) in {str(folder.resolve()) for folder in (inner, *inner.parents)}
    assert closed_folder(Path("/usr")) is None


def verdict(level: Level, why: str | None = None, **managed: str) -> Verdict:
    return Verdict(level, f"a long description of {level}", managed, why, network=True)


def test_a_refusal_is_one_sentence_with_the_best_try_of_each_level_that_would_do() -> None:
    settings = IsolationSettings(Path("/w"), (), {}, required="landlock")
    tried = [
        verdict("namespace", "x" * 1000),
        verdict("landlock", "it cannot be started"),
        verdict("landlock", session_log="reads /log"),
        verdict("process"),
    ]
    (sentence,) = too_weak(settings, tried)
    assert sentence.startswith("isolation.required is landlock, which does not hold here (namespace: xxx")
    assert "landlock: a tool can read or write the session log (reads /log)" in sentence
    assert "description" not in sentence
    assert "process" not in sentence
    assert len(sentence) < 500


def test_a_refusal_says_that_bubblewrap_is_missing() -> None:
    (sentence,) = too_weak(IsolationSettings(Path("/w"), (), {}, required="namespace"), [])
    assert "no bubblewrap was found" in sentence
