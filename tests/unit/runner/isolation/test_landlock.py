"""Landlock's rights by version, and allowed paths around hidden ones."""

import struct

import pytest

from runner.isolation.landlock import handled_rights, rights, ruleset_attributes, without_hidden

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REFER, TRUNCATE = 1, 2, 4, 8, 1 << 13, 1 << 14


@pytest.mark.parametrize(("abi", "count"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (6, 16), (7, 16), (99, 16)])
def test_each_version_handles_the_rights_it_knows(abi: int, count: int) -> None:
    assert handled_rights(abi) == (1 << count) - 1


@pytest.mark.parametrize(("abi", "fields"), [(1, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)])
def test_the_attributes_are_as_long_as_the_version_has_them(abi: int, fields: int) -> None:
    assert len(ruleset_attributes(abi, network=False)) == 8 * fields


def test_tcp_is_refused_only_with_the_network_off() -> None:
    assert struct.unpack("=3Q", ruleset_attributes(6, network=False))[1] == 3
    assert struct.unpack("=3Q", ruleset_attributes(6, network=True))[1] == 0


def test_signals_and_abstract_sockets_stay_inside() -> None:
    assert struct.unpack("=3Q", ruleset_attributes(6, network=True))[2] == 3


def test_reading_gives_no_right_to_change_anything() -> None:
    assert rights(7, write=False, folder=True) == EXECUTE | READ_FILE | READ_DIR


def test_writing_gives_no_device_nodes() -> None:
    assert rights(7, write=True, folder=True) & ((1 << 6) | (1 << 11)) == 0
    assert rights(7, write=True, folder=True) & WRITE_FILE


def test_a_file_gets_only_rights_of_files() -> None:
    assert rights(7, write=True, folder=False) & (READ_DIR | REFER) == 0
    assert rights(7, write=True, folder=False) & TRUNCATE


def tree(folder: str) -> list[str]:
    names = {"/etc": ["hosts", "runner", "ssl"], "/etc/runner": ["spec.json", "other"], "/etc/ssl": ["certs"]}
    return names.get(folder, [])


def test_a_folder_without_anything_hidden_is_allowed_whole() -> None:
    assert without_hidden("/etc", ["/run/secrets", "/etcetera"], tree) == ["/etc"]


def test_what_is_hidden_is_left_out_and_its_siblings_are_allowed() -> None:
    allowed = without_hidden("/etc", ["/etc/runner/spec.json"], tree)
    assert allowed == ["/etc/hosts", "/etc/runner/other", "/etc/ssl"]


def test_a_folder_that_is_hidden_itself_is_not_allowed() -> None:
    assert without_hidden("/etc", ["/etc"], tree) == []
