import fcntl
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from checkpoint.errors import StoreError
from checkpoint.store.file_store import FileStore
from checkpoint.store.port import PreconditionFailed, Written


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "store"


@pytest.fixture
def store(root: Path) -> FileStore:
    return FileStore(root, lock_timeout_s=0.2)


def visible(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and ".locks" not in path.parts}


def test_reading_creates_nothing(store: FileStore, root: Path) -> None:
    assert store.get("a/b") is None
    assert store.stream("a/b") is None
    assert list(store.list("")) == []
    assert store.put_if_match("a/b", b"x", '"e"') == PreconditionFailed()
    assert not root.exists()


def test_an_object_is_a_file_of_its_name_that_only_its_user_may_read(store: FileStore, root: Path) -> None:
    store.put_if_absent("a/b", b"x")
    assert (root / "a" / "b").read_bytes() == b"x"
    assert stat.S_IMODE((root / "a" / "b").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700


def test_nothing_but_the_object_stays_behind(store: FileStore, root: Path) -> None:
    first = store.put_if_absent("a/b", b"x")
    assert isinstance(first, Written)
    store.put_if_absent("a/b", b"y")
    store.put_if_match("a/b", b"y", first.etag)
    store.put_if_match("a/b", b"z", first.etag)
    assert visible(root) == {"a/b"}


def test_what_a_killed_writer_left_is_no_object(store: FileStore, root: Path) -> None:
    store.put_if_absent("a/b", b"x")
    (root / "a" / ".0123456789abcdef.part").write_bytes(b"half")
    assert [found.key for found in store.list("")] == ["a/b"]


def test_the_address_is_that_of_the_file(store: FileStore, root: Path) -> None:
    assert store.address("a/b") == (root / "a" / "b").as_uri()


# Links and other things in the way.


@pytest.mark.parametrize("place", ["a", "a/b"])
def test_a_link_below_the_root_is_not_followed(store: FileStore, root: Path, tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b").write_bytes(b"outside")
    target = outside if place == "a" else outside / "b"
    (root / place).parent.mkdir(parents=True)
    (root / place).symlink_to(target)
    for call in (lambda: store.get("a/b"), lambda: store.put_if_match("a/b", b"x", '"e"')):
        with pytest.raises(StoreError, match=r"symbolic link|needs a folder") as failure:
            call()
        assert failure.value.reason == "misconfigured"
    if place == "a":
        with pytest.raises(StoreError):
            store.put_if_absent("a/c", b"x")
    else:
        assert store.put_if_absent("a/b", b"x") == PreconditionFailed()
    assert list(store.list("")) == []
    assert sorted(path.name for path in outside.iterdir()) == ["b"]
    assert (outside / "b").read_bytes() == b"outside"


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    FileStore(tmp_path / "link").put_if_absent("a", b"x")
    assert (tmp_path / "real" / "a").read_bytes() == b"x"


def test_a_pipe_in_the_place_of_an_object_does_not_hang_its_reader(store: FileStore, root: Path) -> None:
    root.mkdir(parents=True)
    os.mkfifo(root / "a")
    with pytest.raises(StoreError) as failure:
        store.get("a")
    assert failure.value.reason == "misconfigured"


def test_a_folder_in_the_place_of_an_object_is_named(store: FileStore, root: Path) -> None:
    (root / "a").mkdir(parents=True)
    with pytest.raises(StoreError, match="/store/a"):
        store.get("a")


def test_a_file_in_the_place_of_a_folder_is_named(store: FileStore, root: Path) -> None:
    root.mkdir(parents=True)
    (root / "a").write_bytes(b"")
    with pytest.raises(StoreError, match="needs a folder"):
        store.put_if_absent("a/b", b"x")


# Locks and the disk.


def test_a_lock_that_a_stalled_process_holds_is_waited_for_within_bounds(store: FileStore, root: Path) -> None:
    first = store.put_if_absent("a", b"x")
    assert isinstance(first, Written)
    held = [os.open(path, os.O_RDWR) for path in (root / ".locks").iterdir()]
    for file in held:
        fcntl.flock(file, fcntl.LOCK_EX)
    with pytest.raises(StoreError, match="locked") as failure:
        store.put_if_match("a", b"y", first.etag)
    assert failure.value.reason == "unreachable"
    for file in held:
        os.close(file)
    assert isinstance(store.put_if_match("a", b"y", first.etag), Written)
    assert visible(root) == {"a"}


def test_a_lock_that_is_released_is_taken(root: Path) -> None:
    store = FileStore(root, lock_timeout_s=20)
    first = store.put_if_absent("a", b"x")
    assert isinstance(first, Written)
    (lock,) = (root / ".locks").iterdir()
    file = os.open(lock, os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX)
    release = threading.Timer(0.05, os.close, [file])
    release.start()
    assert isinstance(store.put_if_match("a", b"y", first.etag), Written)
    release.join()


def test_processes_share_the_lock(root: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from checkpoint.store.file_store import FileStore\n"
        "store = FileStore(Path(sys.argv[1])); print('ready', flush=True); sys.stdin.read(1); counted = 0\n"
        "store.put_if_absent('n', b'0')\n"
        "while counted < 50:\n"
        "    found = store.get('n')\n"
        "    answer = store.put_if_match('n', b'%d' % (int(found.data) + 1), found.etag)\n"
        "    counted += type(answer).__name__ == 'Written'\n"
    )
    command = [sys.executable, "-c", program, str(root)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        process.communicate(b"g", timeout=60)
    assert [process.returncode for process in processes] == [0, 0, 0]
    found = FileStore(root).get("n")
    assert found is not None
    assert found.data == b"150"


def test_a_write_that_cannot_be_finished_is_named_and_leaves_nothing(root: Path) -> None:
    program = (
        "import resource, signal, sys; from pathlib import Path; from checkpoint.store.file_store import FileStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "store = FileStore(Path(sys.argv[1]))\n"
        "try:\n    store.put_if_absent('a', b'x' * 5000)\n"
        "except Exception as error:\n    print(type(error).__name__, error.reason)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(root)], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "StoreError unreachable\n"
    assert visible(root) == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_folder_without_rights_is_denied(root: Path) -> None:
    store = FileStore(root)
    store.put_if_absent("a", b"x")
    program = (
        "import os, sys; from pathlib import Path; from checkpoint.store.file_store import FileStore\n"
        "os.chmod(Path(sys.argv[1]).parent, 0o711); os.setuid(65534)\n"
        "try:\n    FileStore(Path(sys.argv[1])).put_if_absent('b', b'x')\n"
        "except Exception as error:\n    print(type(error).__name__, error.reason)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(root)], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "StoreError denied\n"
