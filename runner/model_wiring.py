"""Builds the models of a launch: the scripted one, or real ones over HTTP. Loads nothing that a run does not use."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from checkpoint.jsontypes import Message
from runner.agent.types import ModelName
from runner.retrying import ModelChoice
from runner.secrets import Secrets, api_key_name, missing_secret
from runner.spec import ModelSpec, SecretRef, Spec

if TYPE_CHECKING:
    from runner.models.failure import Failure
    from runner.models.recorder import Recorder
    from runner.models.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class Models:
    choices: tuple[ModelChoice, ...]
    """For the main agent: its model, then the fallbacks."""
    fresh: Callable[[str | None], ModelChoice | None]
    """For an agent of its own: the model of that id, the main one for None; None for an id that the spec does not
    name. Requests are counted anew.
    """
    ids: tuple[str, ...]
    preload: Callable[[], None]
    """Does, on a thread, what the first request would otherwise wait for."""
    close: Callable[[], Awaitable[None]]


def build_models(
    spec: Spec,
    secrets: Secrets,
    path: Callable[[str], Path],
    record: Path | None,
    on_recording_stopped: Callable[[str], object],
) -> Models:
    """The models of a launch that has been checked. `path` resolves the spec's paths."""
    specs = (spec.agent.model, *spec.agent.fallback_models)
    recordings = _recordings(record, on_recording_stopped)
    preload, close = _nothing, _closed
    if all(model.api == "scripted" for model in specs):
        new_agent = _scripted_only(path)
    else:
        new_agent, preload, close = _over_http(specs, spec.session.id, secrets, path)
    main = new_agent(next(recordings))
    by_id = {model.id or "scripted-model": model for model in reversed(specs)}

    def fresh(model_id: str | None) -> ModelChoice | None:
        wanted = specs[0] if model_id is None else by_id.get(model_id)
        return None if wanted is None else new_agent(next(recordings))(wanted)

    ids = tuple(dict.fromkeys(model.id or "scripted-model" for model in specs))
    return Models(tuple(main(model) for model in specs), fresh, ids, preload, close)


NewChoice: TypeAlias = Callable[[ModelSpec], ModelChoice]


def _recordings(folder: Path | None, on_stopped: Callable[[str], object]) -> "Iterator[Recorder | None]":
    """One recorder per agent: the main agent's in `folder`, each further one's in a folder below it."""
    if folder is None:
        while True:
            yield None
    from runner.models.recorder import Recorder

    yield Recorder(folder, on_stopped)
    for number in count(1):
        yield Recorder(folder / f"subagent-{number}", on_stopped)


def _scripted_only(path: Callable[[str], Path]) -> "Callable[[Recorder | None], NewChoice]":
    return lambda _recorder: lambda spec: scripted_choice(spec, path)


def scripted_choice(spec: ModelSpec, path: Callable[[str], Path]) -> ModelChoice:
    from runner.models.scripted import ScriptedModel, load_script

    assert spec.script is not None, "the launch was checked"
    name = ModelName(spec.id or "scripted-model", spec.provider or "scripted", "scripted")
    model = ScriptedModel(load_script(path(spec.script)))
    return _choice(spec, name, model.stream_fn, _failure_by_text)


def _over_http(
    specs: tuple[ModelSpec, ...],
    session_id: str,
    secrets: Secrets,
    path: Callable[[str], Path],
) -> "tuple[Callable[[Recorder | None], NewChoice], Callable[[], None], Callable[[], Awaitable[None]]]":
    from runner.models.answer import Surroundings
    from runner.models.calls import ModelCalls
    from runner.models.pricing import PriceBook
    from runner.models.settings import CallOptions
    from runner.models.transport import HttpTransport

    transport = HttpTransport()
    surroundings, keys = Surroundings(transport, prices=PriceBook()), _keys(specs, secrets)

    def new_agent(recorder: "Recorder | None") -> NewChoice:
        calls = ModelCalls(surroundings, options=CallOptions(session_id=session_id), keys=keys, recorder=recorder)

        def choice(spec: ModelSpec) -> ModelChoice:
            if spec.api == "scripted":
                return scripted_choice(spec, path)
            return _choice(spec, model_settings(spec, secrets), calls, calls.failure_of)

        return choice

    return new_agent, transport.preload, transport.aclose


def _choice(spec: ModelSpec, name: Any, stream: Any, failure_of: "Callable[[Message], Failure | None]") -> ModelChoice:
    return ModelChoice(name, stream, failure_of, spec.thinking_level, spec.max_retries, spec.max_retry_delay_s)


def _failure_by_text(message: Message) -> "Failure | None":
    """A scripted error is judged as one of a restored log: by its text."""
    from runner.models.failure import failure_of_message

    return failure_of_message(message)


def _keys(specs: tuple[ModelSpec, ...], secrets: Secrets) -> Mapping[str, str]:
    found = {spec.provider: secrets.get(api_key_name(spec.provider)) for spec in specs if spec.provider is not None}
    return {provider: key for provider, key in found.items() if key is not None}


def model_settings(spec: ModelSpec, secrets: Secrets) -> "ModelSettings":
    """The adapters' settings of a real model, credentials of its headers filled in. Raises BadModelSettings."""
    from runner.models.settings import settings_from_spec

    fields = spec.model_dump(exclude_none=True, exclude={"headers", "script"})
    headers = {
        name: (secrets.get(value.secret) or "") if isinstance(value, SecretRef) else value
        for name, value in spec.headers.items()
    }
    return settings_from_spec({**fields, "headers": headers})


def model_problems(place: str, spec: ModelSpec, secrets: Secrets, secrets_folder: Path) -> list[str]:
    """What is wrong with one model of the spec beyond its shape; for `runner check`."""
    if spec.api == "scripted":
        return []
    from runner.models.checking import settings_problems
    from runner.models.settings import BadModelSettings

    try:
        settings = model_settings(spec, secrets)
    except BadModelSettings as error:
        return [f"{place}: {error}"]
    problems = [f"{place}.{problem}" for problem in settings_problems(settings, spec.thinking_level)]
    problems += _address_problems(place, settings)
    problems += _header_problems(place, spec, secrets)
    if settings.needs_key and secrets.get(api_key_name(settings.provider)) is None:
        problems.append(missing_secret(api_key_name(settings.provider), secrets_folder))
    return problems


def _address_problems(place: str, settings: "ModelSettings") -> list[str]:
    from runner.spec import address_problem

    if not settings.base_url:
        return [f"{place}.base_url: must be given: there is no known address of provider {settings.provider!r}"]
    problem = address_problem(settings.base_url, insecure=True)
    return [] if problem is None else [f"{place}.base_url: {problem}"]


def _header_problems(place: str, spec: ModelSpec, secrets: Secrets) -> list[str]:
    """Values that no header can carry. A secret is named, never shown."""
    from runner.models.checking import can_be_sent

    literals = {name: value for name, value in spec.headers.items() if isinstance(value, str)}
    problems = [
        f"{place}.headers.{name}: a header carries visible ASCII only, without blanks at its ends"
        for name, value in literals.items()
        if value and not can_be_sent(value)
    ]
    names = [value.secret for value in spec.headers.values() if isinstance(value, SecretRef)]
    for name in (api_key_name(spec.provider or ""), *names):
        value = secrets.get(name)
        if value is not None and not can_be_sent(value):
            problems.append(f"secret `{name}`: holds what no HTTP header can carry: put the bare key into it")
    return problems


def _nothing() -> None:
    pass


async def _closed() -> None:
    pass
