"""From a launch argument to a valid spec: where the JSON comes from, and what is wrong with it, in words.

Everything here ends in `Refused` (exit 78) or `UsageError` (64); nothing has been touched by then.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from checkpoint.text import clean_json
from runner.errors import Refused, UsageError
from runner.spec import Spec

MAX_SPEC_BYTES = 16 * 1024 * 1024
ENV_SPEC = "PIPELINE_SPEC"
ENV_SPEC_FILE = "PIPELINE_SPEC_FILE"


class Launch(Struct, frozen=True):
    spec: Spec
    base: Path
    """Relative paths of the spec are relative to this folder."""
    spec_file: Path | None = None
    from_stdin: bool = False
    """The spec came over standard input."""

    def path(self, value: str) -> Path:
        return (self.base / value).absolute()


def load_launch(argument: str | None, environ: Mapping[str, str], stdin: Any = None) -> Launch:
    """Read and validate the spec. `argument` is a path, `-` (stdin) or None (the environment)."""
    text, origin, spec_file = _read(argument, environ, stdin)
    base = spec_file.absolute().parent if spec_file is not None else Path.cwd()
    return Launch(parse_spec(text, origin), base, spec_file, from_stdin=argument == "-")


def _read(argument: str | None, environ: Mapping[str, str], stdin: Any) -> tuple[bytes, str, Path | None]:
    if argument == "-":
        source = sys.stdin.buffer if stdin is None else stdin
        return source.read(MAX_SPEC_BYTES + 1), "standard input", None
    if argument is None and ENV_SPEC in environ:
        return environ[ENV_SPEC].encode("utf-8", "surrogateescape"), f"${ENV_SPEC}", None
    path = argument if argument is not None else environ.get(ENV_SPEC_FILE)
    if path is None:
        raise UsageError(f"no spec: give a path or `-`, or set {ENV_SPEC} or {ENV_SPEC_FILE}")
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_SPEC_BYTES + 1), path, Path(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Refused(
            "spec_unreadable", [f"{path}: cannot be read ({reason}): give the path of the launch spec"]
        ) from None


def parse_spec(text: bytes, origin: str) -> Spec:
    """Validate; all problems at once, each with its place."""
    if len(text) > MAX_SPEC_BYTES:
        raise Refused("spec_invalid", [f"{origin}: larger than {MAX_SPEC_BYTES} bytes: is it the launch spec?"])
    try:
        document = json.loads(text.decode("utf-8"), object_pairs_hook=_no_doubles)
    except UnicodeDecodeError as error:
        raise Refused("spec_invalid", [f"{origin}: not UTF-8 (byte {error.start}): save it as UTF-8"]) from None
    except _DoubledKeyError as error:
        raise Refused("spec_invalid", [f"{origin}: the key {error} stands twice in one object: keep one"]) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        hint = ": it takes the spec itself; for a path, set PIPELINE_SPEC_FILE" if origin == "$PIPELINE_SPEC" else ""
        raise Refused("spec_invalid", [f"{origin}: not JSON ({error.msg} at {place}){hint}"]) from None
    except RecursionError:
        raise Refused("spec_invalid", [f"{origin}: nested too deeply"]) from None
    except ValueError as error:  # a number with thousands of digits
        raise Refused("spec_invalid", [f"{origin}: cannot be read ({error})"]) from None
    if not isinstance(document, dict):
        raise Refused("spec_invalid", [f"{origin}: must be a JSON object"])
    fields = clean_json(cast("dict[str, Any]", document))
    version = fields.get("version")
    if type(version) is not int or version != 1:
        given = "missing" if version is None else f"{json.dumps(version)[:40]}"
        raise Refused("spec_version", [f"{origin}: `version` is {given}; this runner understands version 1"])
    try:
        return Spec.model_validate(fields)
    except ValidationError as error:
        problems = [f"{origin}: {_sentence(detail)}" for detail in error.errors(include_url=False, include_input=False)]
        raise Refused("spec_invalid", problems) from None


class _DoubledKeyError(Exception):
    pass


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        raise _DoubledKeyError(repr(next(name for name in names if names.count(name) > 1)))
    return result


# --- words ---------------------------------------------------------------------------------------------------

_UNION_TAGS = frozenset({"text", "blocks", "manifest", "jsonl", "stdio", "http"})


def _place(location: tuple[int | str, ...]) -> str:
    place = ""
    for index, part in enumerate(location):
        if isinstance(part, int):
            place += f"[{part}]"
        elif not _is_tag(location, index):
            place += f".{part}" if place else part
    return place or "the spec"


def _is_tag(location: tuple[int | str, ...], index: int) -> bool:
    """pydantic puts the name of the chosen alternative into the location; a reader of the spec does not know it."""
    if location[index] == "[key]":
        return True
    owned = index > 0 and location[index - 1] in ("restore", "message")
    in_mcp = index > 1 and location[index - 2] == "mcp"
    return location[index] in _UNION_TAGS and (owned or in_mcp)


def _sentence(detail: ErrorDetails) -> str:
    place = _place(detail["loc"])
    match detail["type"]:
        case "extra_forbidden":
            return f"{place}: unknown field{_suggestion(detail['loc'])}"
        case "missing":
            return f"{place}: must be given"
        case "value_error":
            return f"{place}: {detail['msg'].removeprefix('Value error, ')}"
        case "string_pattern_mismatch":
            return f"{place}: has the wrong form; it must match {detail.get('ctx', {}).get('pattern', '')}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{place}: must be a JSON object"
        case _:
            message = detail["msg"]
            return f"{place}: {message[:1].lower()}{message[1:]}"


def _suggestion(location: tuple[int | str, ...]) -> str:
    import difflib

    name = str(location[-1])
    close = difflib.get_close_matches(name, _field_names(Spec), n=1, cutoff=0.75)
    return f": did you mean `{close[0]}`?" if close and close[0] != name else ": remove it"


def _field_names(model: Any) -> list[str]:
    schema = model.model_json_schema()
    names = set(schema.get("properties", {}))
    for definition in schema.get("$defs", {}).values():
        names |= set(definition.get("properties", {}))
    return sorted(names)
