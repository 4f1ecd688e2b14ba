"""Everything about a launch that can be found wrong without side effects: what `runner check` prints, and exit 78.

Reads the spec's files and the names of the secrets; writes nothing, connects to nothing, imports no tool.
"""

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import checkpoint
import runner
import settlement
from runner.launch import Launch
from runner.model_wiring import model_problems
from runner.secrets import Secrets, missing_secrets
from runner.spec import ManifestRestore, address_problem
from runner.tools.mcp_settings import mcp_problems
from runner.tools.registry import BUILT_IN_TOOLS, tool_name_problems

RUN_FOLDER_PREFIX = "runner-"
"""The session log lives in a private folder of this prefix below the system's temporary folder."""


def launch_problems(launch: Launch, secrets: Secrets, secrets_folder: Path) -> list[str]:
    """One sentence per problem; empty if the launch can go ahead."""
    spec = launch.spec
    problems = list(missing_secrets(spec, secrets, secrets_folder))
    problems += _callback_secret_problems(secrets)
    problems += tool_name_problems(spec.agent.tools or ())
    problems += mcp_problems(spec.agent.mcp)
    problems += _ask_tool_problems(launch)
    problems += _model_problems(launch, secrets, secrets_folder)
    problems += _store_problems(launch)
    problems += _restore_problems(launch)
    problems += _control_problems(launch)
    problems += overlap_problems(launch.path(spec.workspace), protected_places(launch, secrets_folder))
    return problems


def _callback_secret_problems(secrets: Secrets) -> list[str]:
    from settlement.errors import SecretInvalid
    from settlement.signing import CallbackSecrets

    value = secrets.get("callback_secret")
    if value is None:
        return []
    try:
        CallbackSecrets.parse(value)
    except SecretInvalid as error:
        return [f"secret `callback_secret`: {str(error).removeprefix('callback_secret, ')}"]
    return []


def _ask_tool_problems(launch: Launch) -> list[str]:
    named = {name.partition(":")[2] for name in launch.spec.agent.tools or ()}
    forgeable = [
        f"agent.ask_tools[{index}]: {name!r} cannot ask: whatever a command or a file says would pass for a question"
        for index, name in enumerate(launch.spec.agent.ask_tools)
        if name in BUILT_IN_TOOLS
    ]
    return forgeable + [
        f"agent.ask_tools[{index}]: {name!r} must be a plain tool name"
        for index, name in enumerate(launch.spec.agent.ask_tools)
        if ":" in name and name not in named
    ]


def _model_problems(launch: Launch, secrets: Secrets, secrets_folder: Path) -> list[str]:
    from runner.models.scripted import ScriptInvalid, load_script

    agent = launch.spec.agent
    places = [("agent.model", agent.model)]
    places += [(f"agent.fallback_models[{index}]", model) for index, model in enumerate(agent.fallback_models)]
    problems: list[str] = []
    for place, model in places:
        problems += model_problems(place, model, secrets, secrets_folder)
        if model.script is not None:
            try:
                load_script(launch.path(model.script))
            except ScriptInvalid as error:
                problems.append(f"{place}.script: {error}")
    return list(dict.fromkeys(problems))


def _store_problems(launch: Launch) -> list[str]:
    from checkpoint.errors import StoreError
    from checkpoint.store.addresses import FileAddress, parse_address

    store = launch.spec.store
    try:
        address = parse_address(store.uri)
    except (StoreError, ValueError) as error:
        return [f"store.uri: {error}"]
    if not isinstance(address, FileAddress):
        problem = None if store.endpoint_url is None else address_problem(store.endpoint_url, insecure=True)
        return [] if problem is None else [f"store.endpoint_url: {problem}"]
    if "\0" in address.path:
        return ["store.uri: the path holds a NUL character: correct it"]
    place = launch.path(address.path)
    if _is_in_the_way(place):
        return [f"store.uri: {place} is no folder: name one, or a path where one can be made"]
    return []


def _is_in_the_way(folder: Path) -> bool:
    """Something else than a folder is there. What cannot be looked at is found out when it is used."""
    try:
        return folder.exists() and not folder.is_dir()
    except OSError:
        return False


def _restore_problems(launch: Launch) -> list[str]:
    """A key that no store has, an address that leads nowhere."""
    from checkpoint.errors import StoreError
    from checkpoint.store.addresses import S3Address, check_key, parse_address

    restore = launch.spec.session.restore
    if restore is None:
        return []
    if isinstance(restore, ManifestRestore):
        name, source = "manifest", restore.manifest
    else:
        name, source = "jsonl", restore.jsonl
    place = f"session.restore.{name}"
    try:
        if name == "jsonl" and source.startswith(("/", ".")):
            return [f"{place}: {source!r} is no key of the store: for a file, write file:// and its absolute path"]
        if name == "manifest" or "://" not in source:
            check_key(source)
            return []
        address = parse_address(source)
        if isinstance(address, S3Address):
            check_key(address.path)
        elif "\0" in address.path:
            return [f"{place}: the path holds a NUL character: correct it"]
    except (StoreError, ValueError) as error:
        return [f"{place}: {error}"]
    return []


MAX_SOCKET_PATH_BYTES = 107
"""What fits into a `sockaddr_un` (Linux: 108, the closing NUL included)."""


def _control_problems(launch: Launch) -> list[str]:
    control = launch.spec.control
    if control is None:
        return []
    if control == "stdin":
        takes_spec = 'control: "stdin" is where the spec comes from: give the spec as a file, or name a socket'
        return [takes_spec] if launch.from_stdin else []
    path = launch.path(control)
    size = len(bytes(path))
    if size > MAX_SOCKET_PATH_BYTES:
        return [f"control: {path} has {size} bytes; a socket's path has at most {MAX_SOCKET_PATH_BYTES}: shorten it"]
    try:
        if not path.parent.is_dir():
            return [f"control: the folder {path.parent} does not exist: make it, or name another"]
        if path.is_symlink() or (path.exists() and not path.is_socket()):
            return [f"control: {path} is there and no socket: name another path"]
    except OSError as error:
        return [f"control: {path} cannot be looked at ({error.strerror}): name another path"]
    return []


def protected_places(launch: Launch, secrets_folder: Path) -> list[tuple[str, Path]]:
    """What no tool may reach: (what it is, where)."""
    from checkpoint.errors import StoreError
    from checkpoint.store.addresses import FileAddress, parse_address

    places = [("secrets directory", secrets_folder)]
    with suppress(OSError):  # no temporary folder can be written: no matter of the launch, and noticed soon enough
        places.append(("session log", Path(tempfile.gettempdir()) / RUN_FOLDER_PREFIX))
    places += [("program", Path(str(package.__file__)).parent) for package in (checkpoint, runner, settlement)]
    if launch.spec_file is not None:
        places.append(("launch spec", launch.spec_file))
    if launch.spec.control not in (None, "stdin"):
        places.append(("control socket", launch.path(str(launch.spec.control))))
    models = (launch.spec.agent.model, *launch.spec.agent.fallback_models)
    places += [("script", launch.path(model.script)) for model in models if model.script is not None]
    try:
        address = parse_address(launch.spec.store.uri)
    except (StoreError, ValueError):
        return places
    if isinstance(address, FileAddress) and "\0" not in address.path:
        places.append(("store", launch.path(address.path)))
    return places


def overlap_problems(workspace: Path, protected: Sequence[tuple[str, Path]]) -> list[str]:
    """The workspace must not hold, or lie in, anything that tools must not reach. Symlinks are followed."""
    problems: list[str] = []
    try:
        inner = workspace.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        return [f"workspace {workspace} leads nowhere ({error}): name a folder"]
    if _is_in_the_way(inner):
        problems.append(f"workspace {workspace} is no folder: name one, or a path where one can be made")
    for what, place in protected:
        try:
            outer = place.resolve()
        except (OSError, RuntimeError) as error:
            problems.append(f"the {what} ({place}) leads nowhere ({error}): correct its path")
            continue
        if inner == outer or inner.is_relative_to(outer) or outer.is_relative_to(inner):
            problems.append(f"workspace {workspace} overlaps the {what} ({place}): give it a folder of its own")
    return problems
