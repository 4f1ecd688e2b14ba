"""One process that stands for the runner, with everything worth attacking, and lets all attacks loose at one level.

    python stage.py LEVEL SECRET_FILE     prints {attack: what it managed | null} and what it says of itself

A process of its own, because it hardens itself, and because it is started as root and as an ordinary user. Standard
library and the isolation only.
"""

import asyncio
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.isolation.hardening import harden_process, wipe_from_environment

INSIDE = [
    "read_environments",
    "read_runner_memory",
    "read_runner_descriptors",
    "trace_runner",
    "signal_runner",
    "limit_runner",
    "take_over_launcher",
    "signal_launcher",
    "order_launcher",
    "steer_the_run",
    "see_runner",
    "answer_for_another_tool",
    "signal_another_tool",
    "read_secrets_directory",
    "read_session_log",
    "write_session_log",
    "read_head",
    "write_head",
    "read_launch_spec",
    "write_program",
    "unmask",
    "gain_privileges",
    "reach_metadata_address",
    "reach_network",
    "reach_abstract_sockets",
    "reach_socket_files",
    "eat_memory",
    "fill_disk",
    "start_too_many",
    "use_too_much_cpu",
    "leave_core_files",
]
SECRET_VARIABLE = "ATTACKED_API_KEY"
MEMORY_MB, FILE_MB, PROCESSES, CPU_S = 512, 8, 24, 1
ATTACK_S = 30.0
MANY, ROOM = "many", 1000
"""The folder of many files, and for how many of them there is room."""
CANARY = "31.415"
"""How long the other tool sleeps, which also names it."""


def main() -> None:
    harden_process()
    secret = os.environ.pop(SECRET_VARIABLE)
    wipe_from_environment([SECRET_VARIABLE])
    sys.stdout.write(json.dumps(asyncio.run(attack(sys.argv[1], secret))))


async def attack(level: str, secret: str) -> dict[str, Any]:
    from runner.isolation.confinement import LEVELS
    from runner.isolation.establish import build_spawner
    from runner.isolation.limits import Limits
    from runner.isolation.settings import IsolationSettings

    base, places = make_places(secret)
    settings = IsolationSettings(
        workspace=base / "workspace",
        hidden=(
            ("secrets directory", base / "secrets"),
            ("session log", base / "run"),
            ("store", base / "store"),
            ("launch spec", base / "spec.json"),
        ),
        secrets={"attacked": secret},
        network=False,
        limits=Limits(MEMORY_MB, FILE_MB, PROCESSES, CPU_S),
    )
    chosen = next(known for known in LEVELS if known == level)
    try:
        isolation = await asyncio.to_thread(build_for_attack, build_spawner, settings, chosen)
        try:
            return await Attacks(isolation, base, places, secret).all()
        finally:
            await isolation.spawner.close()
            isolation.remove()
    finally:
        shutil.rmtree(base, ignore_errors=True)


def build_for_attack(build_spawner: Any, settings: Any, level: Any) -> Any:
    """A level that does not keep the network off would be refused: it is attacked all the same."""
    from dataclasses import replace

    from runner.errors import Refused
    from tests.attacks.through_tools import room_for

    free = room_for(ROOM, settings.workspace / MANY)
    try:
        return build_spawner(settings, os.environ, levels=(level,), free=free)
    except Refused:
        return build_spawner(replace(settings, network=True), os.environ, levels=(level,), free=free)


def make_places(secret: str) -> tuple[Path, dict[str, str]]:
    base = Path(tempfile.mkdtemp(prefix="attacked-")).resolve()
    base.chmod(0o755)
    for name in ("workspace", "secrets", "run", "store/pipelines/p1"):
        (base / name).mkdir(parents=True)
    for private in ("secrets", "run"):
        (base / private).chmod(0o700)
    files = {
        "secrets_file": base / "secrets" / "attacked",
        "session_log": base / "run" / "session.jsonl",
        "head": base / "store" / "pipelines" / "p1" / "head.json",
        "spec": base / "spec.json",
    }
    for name, path in files.items():
        path.write_text(secret if name == "secrets_file" else "{}\n")
        path.chmod(0o600)
    shutil.copy(Path(__file__).with_name("inside.py"), base / "workspace" / "inside.py")
    return base, {name: str(path) for name, path in files.items()}


class Attacks:
    def __init__(self, isolation: Any, base: Path, places: dict[str, str], secret: str) -> None:
        self.isolation = isolation
        self.spawner = isolation.spawner
        self.base = base
        self.workspace = base / "workspace"
        self.places = places
        self.secret = secret
        self.results: dict[str, str | None] = {}

    async def all(self) -> dict[str, Any]:
        import runner
        from runner.isolation.process_table import read_row, threads_of
        from tests.attacks.through_tools import ThroughTools

        me = read_row(os.getpid())
        assert me is not None
        abstract = f"attacked-{secrets.token_hex(8)}"
        with (
            socket.create_server(("127.0.0.1", 0)) as host,
            socket.socket(socket.AF_UNIX) as local,
            socket.socket(socket.AF_UNIX) as engine,
            controlled(self.base / "control.sock") as steered,
        ):
            local.bind("\0" + abstract)
            local.listen()
            engine.bind(str(self.base / "engine.sock"))
            engine.listen()
            (self.base / "engine.sock").chmod(0o777)
            orders = {
                **self.places,
                "runner": os.getpid(),
                "runner_started": me.started,
                "workspace": str(self.workspace),
                "program": [str(Path(str(runner.__file__))), sys.executable, os.__file__],
                "port": host.getsockname()[1],
                "abstract": abstract,
                "socket_file": str(self.base / "engine.sock"),
                "control": str(self.base / "control.sock"),
                "many": MANY,
                "room": ROOM,
                "other_tool": CANARY,
                "memory_mb": MEMORY_MB,
                "file_mb": FILE_MB,
                "processes": PROCESSES,
                "running": threads_of(os.getuid()),
                "cpu_s": CPU_S,
            }
            other = await self.start(["sleep", CANARY])
            orders["launchers"] = launchers(other.pid)
            for name in INSIDE:
                self.results[name] = await self.inside(name, orders)
            self.results["steer_the_run"] = self.results["steer_the_run"] or steered()
            await other.end()
            self.results["fill_disk_with_many_files"] = await self.inside("fill_disk_with_many_files", orders)
            shutil.rmtree(self.workspace / MANY)
        self.results.update(await ThroughTools(self.isolation, self.places, self.secret).all())
        await self.leave_processes()
        verdict = self.isolation.verdict
        return {
            "results": self.results,
            "holds": self.isolation.level,
            "claimed": verdict.claimed,
            "description": verdict.description,
            "self_test": dict(verdict.managed),
            "tried": [f"{each.claimed}: {each.unusable}" for each in self.isolation.passed_over],
        }

    async def start(self, command: list[str]) -> Any:
        return await self.spawner.start(command, cwd=self.workspace, env={})

    async def inside(self, name: str, orders: dict[str, Any]) -> str | None:
        """What the attack says it managed. One that dies of it, or says nothing sensible, has managed nothing."""
        script = str(self.workspace / "inside.py")
        process = await self.start([sys.executable, "-I", "-S", script, name, json.dumps(orders)])
        try:
            output = await asyncio.wait_for(process.stdout.read(), ATTACK_S)
        except TimeoutError:
            output = b""
        await process.end()
        try:
            return json.loads(output)["managed"]
        except ValueError:
            return None

    async def leave_processes(self) -> None:
        """Each hides in another way; `sleep` with a number of its own shows whether it is still there."""
        hiding = {
            "leave_a_background_process": "sleep {n} & sleep {n} & exit 0",
            "leave_a_double_fork": "(setsid sh -c 'sleep {n} & exit 0' &) ; sleep 0.2",
            "leave_one_that_ignores_sigterm": "trap '' TERM HUP INT; (setsid sh -c 'sleep {n}; :' &); sleep {n}",
            "leave_one_with_closed_pipes": "(setsid sleep {n} >/dev/null 2>&1 </dev/null &) ; sleep 0.2",
            # Bounded by itself too, for the level that bounds nothing: 2 ** 7 processes, and a minute.
            "fork_bomb": "bomb() {{ [ $1 = 0 ] && exec sleep {n}; bomb $(($1-1)) & bomb $(($1-1)) & wait; }}; bomb 7",
        }
        for index, (name, script) in enumerate(hiding.items()):
            number = f"60.27182{index}"
            process = await self.start(["bash", "-c", script.format(n=number)])
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=1.0)
            began = time.monotonic()
            await process.end()
            took = time.monotonic() - began
            left = sleepers(number)
            self.results[name] = f"{left} processes" if left else f"{took:.1f} s to end" if took > 4.0 else None


@contextmanager
def controlled(path: Path) -> Generator[Callable[[], str | None]]:
    """A control channel at a path; tells whether anybody has got a stop through."""
    import structlog
    from structlog.testing import CapturingLogger

    from runner.control import Control
    from runner.control_socket import SocketControl
    from runner.signals import StopLatch

    stop = StopLatch()
    log: Any = structlog.wrap_logger(
        CapturingLogger(), processors=[], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
    channel = SocketControl(path, Control("p1", stop, log), log)
    channel.prepare()
    channel.open(None)  # pyright: ignore[reportArgumentType] - it does not look at the head
    try:
        yield lambda: stop.reason
    finally:
        channel.close()
        channel.join(5.0)


def launchers(watcher: int) -> list[tuple[int, int]]:
    """Pid and start time of a command's watcher and of its parent; where the runner starts commands itself, none."""
    from runner.isolation.process_table import read_row

    row = read_row(watcher)
    assert row is not None
    parent = read_row(row.parent)
    assert parent is not None
    return [] if parent.pid == os.getpid() else [(each.pid, each.started) for each in (row, parent)]


def sleepers(number: str) -> int:
    count = 0
    for folder in Path("/proc").iterdir():
        try:
            count += folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(f"sleep\0{number}".encode())
        except OSError:
            continue
    return count


if __name__ == "__main__":
    main()
