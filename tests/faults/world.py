"""The servers that outlive every process under test, and one pipeline among them.

A `World` has a callback server that commits (durable, for it lives in the test), a model, and S3. A `Trial` is one
pipeline in a folder of its own, with its own session, launched as often as it takes. What is held against the
product is in `invariants`.
"""

import json
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from checkpoint.store.file_store import FileStore
from checkpoint.store.port import ObjectStore
from checkpoint.store.s3_store import S3Store
from settlement.commit_rule import RestorePoint
from tests.e2e.models_scene import KEY, MODEL_ID, PROVIDER
from tests.e2e.scene import Json, Run, Scene, Started
from tests.fakes.callback_server import CallbackServer, Received
from tests.fakes.conversing_model import API, ConversingModel, Script
from tests.fakes.fault_proxy import Call, Fault, FaultProxy, Plan, nothing
from tests.fakes.provider_answers import Call as Use
from tests.faults.invariants import Watched, check_before_callback, restored_bytes
from tests.servers import S3Server

T = TypeVar("T")

AT_ONCE = 3
RELAUNCHED = (75, 143, -signal.SIGKILL)
"""Ends after which an orchestrator launches the next attempt."""
MOST_ATTEMPTS = 8
INPUT = "Deploy the project, whose input is a sentence found nowhere else."
REPLY = "The answer is staging, as nobody else says."


@dataclass(frozen=True)
class Scenario:
    name: str
    script: Script
    kind: str
    """Of the settlement."""
    replies: bool = False
    """It answers the question of a restored session."""


NOTE = Use("note", "call_note", {"path": "journal"})
ASK = Use("ask_user", "call_ask", {"question": "Staging or production?"})
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("success", [(NOTE,), ("Deployed.",)], "success"),
        Scenario("ask", [(NOTE,), (ASK,), ("never said",)], "ask_user"),
        Scenario("reply", [(NOTE,), (ASK,), (replace(NOTE, call_id="call_more"),), ("Done.",)], "success", True),
        Scenario("failure", [(NOTE,), 400], "failure"),
    )
}


class World:
    """`scripts` are added to those of the scenarios."""

    def __init__(self, s3: S3Server | None = None, scripts: dict[str, Script] | None = None) -> None:
        self.s3 = s3
        self.server = CallbackServer(on_terminal=self._on_terminal)
        self.model = ConversingModel({**{name: one.script for name, one in SCENARIOS.items()}, **(scripts or {})})
        self.trials: dict[str, Trial] = {}
        self._bucket = s3.new_bucket() if s3 is not None else None
        self._making_base = threading.Lock()
        self._base: Trial | None = None

    @contextmanager
    def running(self) -> Generator["World"]:
        with ExitStack() as stack:
            stack.enter_context(self.server)
            stack.enter_context(self.model)
            yield self

    def _on_terminal(self, request: Received) -> None:
        """Invariant 2, seen from the server: what comes is stored, with everything it names."""
        pipeline_id = json.loads(request.body)["pipeline_id"]
        check_before_callback(self.trials[pipeline_id].store, pipeline_id, request.body)

    def trial(self, folder: Path, scenario: Scenario, kind: str = "file", every: str = "end") -> "Trial":
        """A new pipeline; its id is the folder's name."""
        folder.mkdir(parents=True)
        trial = Trial(self, folder, scenario, kind, every)
        self.trials[trial.pipeline_id] = trial
        base = self._asked(folder.parent) if scenario.replies else None
        if base is not None:
            trial.begin_from(base)
        point = None if base is None else RestorePoint(base.checkpoint["digest"], base.checkpoint["manifest"])
        self.server.set_restore_point(trial.session_id, point)
        return trial

    def _asked(self, parent: Path) -> "Trial":
        """A settled pipeline whose question the replying ones answer, made once; each takes a copy of its session."""
        with self._making_base:
            if self._base is None:
                self._base = self.trial(parent / "base", SCENARIOS["ask"])
                assert self._base.run(1)[0].exit == 0
            return self._base

    def forget(self, trial: "Trial") -> None:
        """Drop what is kept of a pipeline that is done with."""
        self.server.forget(trial.pipeline_id, trial.session_id)
        self.trials.pop(trial.pipeline_id)
        shutil.rmtree(trial.folder)

    def store_spec(self, trial: "Trial", proxy: FaultProxy | None) -> Json:
        if trial.kind == "file":
            return {"uri": "store"}
        assert self.s3 is not None, "this world has S3"
        endpoint = proxy.url("store") if proxy is not None else self.s3.endpoint_url
        return {
            "uri": f"s3://{self._bucket}/{trial.pipeline_id}",
            "endpoint_url": endpoint,
            "region": self.s3.region,
        }

    def targets(self, trial: "Trial") -> dict[str, str]:
        named = {"server": self.server.base_url, "model": self.model.url(trial.scenario.name)}
        return named if self.s3 is None or trial.kind == "file" else {**named, "store": self.s3.endpoint_url}

    def open_store(self, trial: "Trial") -> ObjectStore:
        if trial.kind == "file":
            return FileStore(trial.folder / "store")
        assert self.s3 is not None
        assert self._bucket is not None
        return S3Store(self.s3.settings(self._bucket, trial.pipeline_id))


@dataclass
class Trial:
    world: World
    folder: Path
    scenario: Scenario
    kind: str
    every: str
    changes: Json = field(default_factory=dict[str, Any])
    """Of the spec."""
    runs: list[Run] = field(default_factory=list[Run])
    base: bytes = b""
    """The lines of the session that is restored."""

    def __post_init__(self) -> None:
        self.scene = Scene(
            self.folder,
            self.world.server.base_url,
            self.world.server.secret,
            environ={"PYTHONDONTWRITEBYTECODE": ""},  # else the product is compiled anew at each start
        )
        self.scene.secrets.mkdir()
        (self.scene.secrets / f"{PROVIDER}_api_key").write_text(KEY + "\n")
        if self.kind == "s3" and self.world.s3 is not None:
            credentials = self.world.s3.credentials
            (self.scene.secrets / "aws_access_key_id").write_text(credentials.access_key_id + "\n")
            (self.scene.secrets / "aws_secret_access_key").write_text(credentials.secret_access_key + "\n")
        self.store = self.world.open_store(self)
        self.watched = Watched(self.store)

    @property
    def pipeline_id(self) -> str:
        return self.folder.name

    @property
    def session_id(self) -> str:
        return f"s-{self.folder.name}"

    @property
    def input(self) -> Json:
        reply = {"reply": {"tool_call_id": "call_ask", "message": REPLY}}
        return reply if self.scenario.replies else {"message": INPUT}

    @property
    def checkpoint(self) -> Json:
        """Of the last run."""
        return self.runs[-1].checkpoint

    @property
    def told(self) -> list[bytes]:
        """The bodies of the callbacks that came of this pipeline, in order."""
        terminals = self.world.server.terminals
        return [one.body for one in terminals if one.json()["pipeline_id"] == self.pipeline_id]

    def begin_from(self, asked: "Trial") -> None:
        """Restore what another pipeline left, from a copy."""
        for found in asked.store.list("sessions/"):
            stored = asked.store.get(found.key)
            assert stored is not None
            self.store.put_if_absent(found.key, stored.data)
        named = {name: asked.checkpoint[name] for name in ("manifest", "digest")}
        self.changes = {"session": {"id": self.session_id, "restore": named}}
        self.base = restored_bytes(self.store, named["manifest"], named["digest"])

    @property
    def events(self) -> Path:
        """Where `killed_run` counts."""
        return self.folder / "events"

    @property
    def journal(self) -> list[str]:
        """The ids of the calls of `note` that had their effect, each time they had it."""
        path = self.folder / "journal"
        return path.read_text().split() if path.exists() else []

    def spec(self, attempt: int, proxy: FaultProxy | None) -> Json:
        model_url = proxy.url("model") if proxy is not None else self.world.model.url(self.scenario.name)
        model: Json = {
            "api": API,
            "provider": PROVIDER,
            "id": MODEL_ID,
            "base_url": model_url,
            "max_retry_delay_s": 0.01,
        }
        spec = self.scene.spec(
            None,
            pipeline_id=self.pipeline_id,
            attempt=attempt,
            session={"id": self.session_id},
            store=self.world.store_spec(self, proxy),
            input=self.input,
            agent={"model": model, "tools": ["tests.faults.journal_tool:TOOLS"]},
            server={"base_url": proxy.url("server") if proxy is not None else self.world.server.base_url},
            checkpoint={"every": self.every},
        )
        return {**spec, **self.changes}

    def start(
        self,
        attempt: int,
        proxy: FaultProxy | None = None,
        *,
        kill_at: int | None = None,
        number: int = signal.SIGKILL,
    ) -> Started:
        """Start an attempt, as the orchestrator does: the server knows of it. `kill_at` and `number` (the signal): see
        `killed_run`.
        """
        self.world.server.launched(self.pipeline_id, self.session_id, attempt)
        spec = self.spec(attempt, proxy)
        if kill_at is None:
            return self.scene.start(spec)
        path = self.folder / "spec.json"
        path.write_text(json.dumps(spec))
        module = [sys.executable, "-m", "tests.faults.killed_run", str(kill_at), str(int(number)), str(self.events)]
        return self.scene.launch([*module, "run", str(path), "--secrets-dir", str(self.scene.secrets)])

    def finish(self, started: Started) -> Run:
        """The end of a process, after which everything stored so far is looked at."""
        run = started.finish()
        self.runs.append(run)
        self.watched.look()
        return run

    def run(
        self,
        attempt: int,
        plan: Plan = nothing,
        *,
        kill_at: int | None = None,
        at_call: "Callable[[Call, Started], None] | None" = None,
    ) -> tuple[Run, FaultProxy]:
        """One attempt behind a proxy of its own. `at_call` sees each call and the process that makes it."""
        with FaultProxy(self.world.targets(self), plan) as proxy:
            ready = threading.Event()
            victims: list[Started] = []

            def victim() -> Started:
                assert ready.wait(10)
                return victims[0]

            def seen(call: Call) -> Fault | None:
                if at_call is not None:
                    at_call(call, victim())
                return plan(call)

            proxy.plan = seen
            proxy.kill = lambda: victim().signal(signal.SIGKILL)
            victims.append(self.start(attempt, proxy, kill_at=kill_at))
            ready.set()
            return self.finish(victims[0]), proxy

    def relaunch_until_settled(self) -> Run:
        """What an orchestrator does: the next attempt, as long as the end says that a relaunch is safe."""
        while self.runs[-1].exit in RELAUNCHED:
            assert len(self.runs) < MOST_ATTEMPTS, [run.stderr for run in self.runs]
            self.finish(self.start(len(self.runs) + 1))
        return self.runs[-1]


def side_by_side(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Do it to each, a few at a time; the first failure is raised, after all have ended."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for future in [pool.submit(work, item) for item in items]:
            future.result()
