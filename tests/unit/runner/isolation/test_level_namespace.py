"""The file system that bubblewrap is told to build."""

from runner.isolation.grounds import Grounds, Hidden, Scratch
from runner.isolation.level_namespace import mount_options

PLACES = {
    "/usr": "folder",
    "/bin": "-> usr/bin",
    "/etc": "folder",
    "/etc/runner/spec.json": "file",
    "/opt": "folder",
    "/opt/store": "folder",
    "/home/python": "folder",
    "/run/secrets/runner": "folder",
    "/data/space": "folder",
    "/tmp/space": "folder",
}


def look(path: str) -> str | None:
    return PLACES.get(path, "folder" if path.startswith("/scratch") else None)


def grounds(workspace: str = "/data/space", *hidden: str) -> Grounds:
    scratch = Scratch("/scratch", "/scratch/home", "/scratch/tmp", "/scratch/outputs")
    return Grounds(workspace, scratch, tuple(Hidden("store", path) for path in hidden), ("/home/python",))


def options(workspace: str = "/data/space", *hidden: str) -> str:
    return " ".join(mount_options(grounds(workspace, *hidden), look, network=False))


def test_only_workspace_and_the_runs_own_folders_are_writable() -> None:
    words = mount_options(grounds(), look, network=False)
    writable = [words[index + 2] for index, word in enumerate(words) if word == "--bind"]
    assert writable == ["/tmp", "/scratch/home", "/scratch/tmp", "/data/space"]


def test_a_link_of_the_host_stays_a_link() -> None:
    assert "--symlink usr/bin /bin" in options()


def test_folders_on_the_way_can_be_entered_by_another_user() -> None:
    assert "--perms 0755 --dir /home --ro-bind /home/python /home/python" in options()


def test_the_root_is_closed_last() -> None:
    assert options().endswith("--remount-ro /")


def test_what_is_hidden_in_an_allowed_folder_is_covered_after_it() -> None:
    text = options("/data/space", "/opt/store", "/etc/runner/spec.json")
    assert text.index("--ro-bind /opt /opt") < text.index("--tmpfs /opt/store --remount-ro /opt/store")
    assert "--ro-bind /dev/null /etc/runner/spec.json" in text


def test_what_is_hidden_elsewhere_is_simply_not_there() -> None:
    assert "/run/secrets" not in options("/data/space", "/run/secrets/runner")


def test_nothing_is_mounted_below_a_folder_that_tools_can_write_to() -> None:
    text = options("/tmp/space")
    assert "--bind /scratch/tmp /tmp" not in text
    assert "--tmpfs /tmp" in text
    assert text.index("--tmpfs /tmp") < text.index("--bind /tmp/space /tmp/space")


def test_a_program_that_lies_in_tmp_is_mounted_into_the_tools_own_tmp() -> None:
    scratch = Scratch("/scratch", "/scratch/home", "/scratch/tmp", "/scratch/outputs")
    there = Grounds("/data/space", scratch, (), ("/tmp/space",))
    text = " ".join(mount_options(there, look, network=False))
    assert text.index("--tmpfs /tmp") < text.index("--ro-bind /tmp/space /tmp/space")


def test_tmp_is_the_runs_own_folder_where_nothing_else_lies_in_it() -> None:
    assert "--bind /scratch/tmp /tmp" in options()


def test_every_file_system_in_memory_has_a_size_or_is_read_only() -> None:
    words = mount_options(grounds("/tmp/space", "/opt/store"), look, network=False)
    for index, word in enumerate(words):
        if word == "--tmpfs":
            place = words[index + 1]
            sized = "--size" in words[index - 4 : index]
            closed = words[index + 2 : index + 4] == ["--remount-ro", place]
            assert sized or closed, place
