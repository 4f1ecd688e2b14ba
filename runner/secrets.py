"""Secrets by name: from files, else from environment variables, which are removed once read.

Refuses to show a value: `repr` names the secrets only, and `redact` takes known values out of any text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path

from runner.errors import Refused
from runner.spec import HttpServer, ModelSpec, SecretRef, Spec

AWS_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
DEFAULT_FOLDER = Path("/run/secrets/runner")
"""Of the command line's `--secrets-dir`. It need not be there."""
MAX_SECRET_BYTES = 64 * 1024


class Secrets:
    """Values by lower-case name."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self._values))})"

    def get(self, name: str) -> str | None:
        return self._values.get(name)

    def values(self) -> Mapping[str, str]:
        """Everything, by name: for the start-up attack, which looks for the values where tools could look."""
        return dict(self._values)

    def redact(self, text: str) -> str:
        """`text` without any secret value. A courtesy for logs and messages, not a boundary."""
        for name, value in self._values.items():
            for line in value.splitlines():
                if len(line) >= 8 and line in text:
                    text = text.replace(line, f"[secret {name}]")
        return text


def wanted_names(spec: Spec) -> list[str]:
    """Every secret this spec may use, in a fixed order."""
    names = ["callback_secret", *AWS_NAMES]
    for model in (spec.agent.model, *spec.agent.fallback_models):
        if model.api != "scripted":
            names.append(api_key_name(model.provider or ""))
    names += [reference.secret for reference in _references(spec)]
    return list(dict.fromkeys(names))


def api_key_name(provider: str) -> str:
    """The secret with a provider's key: `z.ai` has `z_ai_api_key`, a name that files and variables can bear."""
    return re.sub(r"[^a-z0-9_]", "_", provider.lower()) + "_api_key"


def required_names(spec: Spec) -> list[str]:
    """The secrets without which the run cannot work."""
    names = ["callback_secret"] if spec.server is not None else []
    names += [reference.secret for reference in _references(spec)]
    return list(dict.fromkeys(names))


def _references(spec: Spec) -> Iterator[SecretRef]:
    def of(values: Mapping[str, str | SecretRef]) -> Iterator[SecretRef]:
        return (value for value in values.values() if isinstance(value, SecretRef))

    models: tuple[ModelSpec, ...] = (spec.agent.model, *spec.agent.fallback_models)
    for model in models:
        yield from of(model.headers)
    for server in spec.agent.mcp.values():
        yield from of(server.headers if isinstance(server, HttpServer) else server.env)


def load_secrets(folder: Path, names: Iterable[str], environ: MutableMapping[str, str]) -> Secrets:
    """Read the named secrets; a file wins over the variable. The variables are removed from `environ` either way.

    Raises Refused (exit 78) for a file that is there and cannot be read, and for a folder that is not there although it
    was named: a mistyped path would pass for a launch without secrets.
    """
    if folder != DEFAULT_FOLDER and not folder.is_dir():
        raise Refused(
            "secret_unreadable", [f"--secrets-dir: {folder} is no folder: correct the path, or leave the option out"]
        )
    values: dict[str, str] = {}
    for name in names:
        from_environment = environ.pop(name.upper(), None)
        from_file = _read(folder / name)
        value = from_file if from_file is not None else from_environment
        if value is not None and value.strip():
            values[name] = value.strip("\r\n")
    return Secrets(values)


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Refused(
            "secret_unreadable",
            [f"secret file {path} cannot be read ({error.strerror}): check its owner and mode"],
        ) from None
    if len(data) > MAX_SECRET_BYTES:
        raise Refused("secret_unreadable", [f"secret file {path} is larger than {MAX_SECRET_BYTES} bytes"])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("secret_unreadable", [f"secret file {path} is not UTF-8 text"]) from None


def missing_secrets(spec: Spec, secrets: Secrets, folder: Path) -> list[str]:
    """One sentence for each required secret that is not there."""
    return [missing_secret(name, folder) for name in required_names(spec) if secrets.get(name) is None]


def missing_secret(name: str, folder: Path) -> str:
    return f"secret `{name}` is missing: put it in the file {folder / name} or in the variable {name.upper()}"
