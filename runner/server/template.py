"""From the template to the launch spec of one process.

The template is a launch spec without what the server fills in: ids, input, restore point, its own address. Refuses, at
the start of the server, a template that no pipeline could be launched with. Relative paths in it are relative to it.
"""

import copy
import json
from pathlib import Path
from typing import Any, Final, cast

from checkpoint.jsontypes import JsonObject
from runner.errors import RunnerError
from runner.launch import parse_spec
from runner.server.errors import ServeRefused
from runner.server.launching import Order
from runner.server.settings import Folder
from runner.spec import Spec

SERVERS_OWN: Final = ("pipeline_id", "attempt", "session", "input", "workspace", "control", "version")
ORDINAL = "{n}"
"""In the path of a script: the number of the pipeline within its session, for stories of several pipelines."""


class Template:
    def __init__(self, document: JsonObject, base: Path, folder: Folder) -> None:
        """Raises ServeRefused with every problem at once. `base`: what its relative paths are relative to."""
        unknown = sorted(set(document) & set(SERVERS_OWN) - {"version"})
        if unknown:
            raise ServeRefused(*(f"template: `{name}` is filled in by the server: remove it" for name in unknown))
        self._document = document
        self._base = base
        self._folder = folder
        example = self.spec(
            Order("example", 1, "example", "local:example", "local:me", {}, None, 1), "http://127.0.0.1:1"
        )
        try:
            self.example: Spec = parse_spec(json.dumps(example).encode(), "template")
        except RunnerError as error:
            raise ServeRefused(*getattr(error, "problems", (error.message,))) from None

    def spec(self, order: Order, base_url: str) -> JsonObject:
        """The launch spec of one attempt, with absolute paths."""
        document = copy.deepcopy(self._document)
        document |= {
            "version": 1,
            "pipeline_id": order.pipeline_id,
            "attempt": order.attempt,
            "session": {"id": order.session_id, "restore": _restore(order)},
            "workspace": str(self._folder.workspaces / order.session_id),
            "server": _with(document.get("server"), {"base_url": base_url, "heartbeat_path": "/v1/heartbeats"}),
            "labels": _over(document.get("labels"), {"stream_id": order.stream_id, "owner": order.owner}),
        }
        if order.input:
            document["input"] = order.input
        document["store"] = self._placed(_with(document.get("store"), {"uri": self._folder.store.as_uri()}))
        self._place_scripts(document.get("agent"), order.ordinal)
        return document

    def _placed(self, store: Any) -> Any:
        """With its relative path made absolute, if it has the form of a store."""
        if not isinstance(store, dict):
            return store
        fields = cast("JsonObject", store)
        uri = fields["uri"]
        return {**fields, "uri": str(self._base / uri)} if isinstance(uri, str) and "://" not in uri else fields

    def _place_scripts(self, agent: Any, ordinal: int) -> None:
        for model in _models(agent):
            if isinstance(model.get("script"), str):
                model["script"] = str(self._base / model["script"].replace(ORDINAL, str(ordinal)))


def _models(agent: Any) -> list[JsonObject]:
    """Those of the `agent`, as far as it has the form of one; the spec's own check finds what has not."""
    if not isinstance(agent, dict):
        return []
    fields = cast("JsonObject", agent)
    others = fields.get("fallback_models")
    models: list[Any] = [fields.get("model"), *(cast("list[Any]", others) if isinstance(others, list) else [])]
    return [cast("JsonObject", model) for model in models if isinstance(model, dict)]


def load_template(path: Path | None, folder: Folder) -> Template:
    """The template at `path`, or the folder's own. Raises ServeRefused."""
    path = path or folder.path / "template.json"
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ServeRefused(
            f"template {path} cannot be read ({error.strerror}): give --template, a launch spec with `agent` at least"
        ) from None
    except ValueError as error:
        raise ServeRefused(f"template {path}: not JSON ({error})") from None
    if not isinstance(document, dict):
        raise ServeRefused(f"template {path}: must be a JSON object")
    return Template(cast("JsonObject", document), path.absolute().parent, folder)


def _restore(order: Order) -> JsonObject | None:
    point = order.restore_point
    return None if point is None else {"manifest": point.manifest, "digest": point.digest}


def _over(given: Any, own: JsonObject) -> Any:
    """The other way round: the server's own goes before."""
    if isinstance(given, dict):
        return {**cast("JsonObject", given), **own}
    return own if given is None else given


def _with(given: Any, defaults: JsonObject) -> JsonObject:
    """What the template says goes before; anything but an object is left for the spec's own check to refuse."""
    if isinstance(given, dict):
        return {**defaults, **cast("JsonObject", given)}
    return defaults if given is None else given
