"""`read`, `write`, `edit`, `grep`, `find` and `ls`: what the model is told of them. The file worker does the work.

Names, parameters and limits are Pi's, so that models and transcripts carry over.
"""

import json
from collections.abc import Callable
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, is_json_object
from runner.tools.file_worker import FileWorker
from runner.tools.truncation import MAX_BYTES, MAX_LINES

_KB = MAX_BYTES // 1024
_FILE: JsonObject = {"type": "string", "minLength": 1, "description": "Path of the file, in the workspace."}
_FOLDER: JsonObject = {"type": "string", "description": "Folder in the workspace; the workspace itself if left out."}


def _object(required: list[str], **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required}


def _number(description: str) -> JsonObject:
    return {"type": "number", "description": description}


READ = _object(
    ["path"],
    path=_FILE,
    offset=_number("The first line to read, from 1."),
    limit=_number("How many lines to read at most."),
)
WRITE = _object(["path", "content"], path=_FILE, content={"type": "string", "description": "The whole content."})
EDIT = _object(
    ["path", "edits"],
    path=_FILE,
    edits={
        "type": "array",
        "minItems": 1,
        "description": "The replacements. Each is looked for in the file as it is now; they must not overlap.",
        "items": _object(
            ["oldText", "newText"],
            oldText={"type": "string", "description": "The text to replace, exactly; it must occur once in the file."},
            newText={"type": "string", "description": "What takes its place."},
        ),
    },
)
GREP = _object(
    ["pattern"],
    pattern={"type": "string", "minLength": 1, "description": "A regular expression, or a text with `literal`."},
    path={"type": "string", "description": "File or folder in the workspace; the workspace itself if left out."},
    glob={"type": "string", "minLength": 1, "description": "Only files that match, such as *.py or src/**/*.ts."},
    ignoreCase={"type": "boolean", "description": "Do not tell capital from small letters."},
    literal={"type": "boolean", "description": "Search for the pattern as it stands."},
    context=_number("Lines to show before and after each match; 0 if left out."),
    limit=_number("Matching lines at most; 100 if left out."),
)
FIND = _object(
    ["pattern"],
    pattern={"type": "string", "minLength": 1, "description": "A glob, such as *.py, **/*.json or src/**/test_*.py."},
    path=_FOLDER,
    limit=_number("Results at most; 1000 if left out."),
)
LS = _object([], path=_FOLDER, limit=_number("Entries at most; 500 if left out."))


def file_tools(worker: FileWorker) -> list[AgentTool]:
    def tool(
        name: str,
        parameters: JsonObject,
        description: str,
        *,
        prepare: Callable[[Any], Any] | None = None,
    ) -> AgentTool:
        async def execute(
            _call_id: str, args: JsonObject, signal: AbortSignal | None, _on_update: UpdateCallback
        ) -> ToolResult:
            return await worker.call(name, args, signal)

        return AgentTool(name, description, parameters, execute, label=name, prepare_arguments=prepare)

    return [
        tool(
            "read",
            READ,
            f"Read a file: text, or an image (PNG, JPEG, GIF, WebP). At most {MAX_LINES} lines or {_KB} KB are shown "
            "at once; go on with offset.",
        ),
        tool("write", WRITE, "Write a file: a new one, its folders included, or in place of what was there."),
        tool(
            "edit",
            EDIT,
            "Replace pieces of a text file. Each oldText must occur exactly once in it, and pieces must not overlap; "
            "otherwise nothing is changed. Encoding and line ends stay as they are.",
            prepare=prepare_edit,
        ),
        tool(
            "grep",
            GREP,
            "Search file contents; gives matching lines with path and line number. What .gitignore names is left out. "
            f"At most 100 matches (see limit) or {_KB} KB; lines are cut at 500 characters.",
        ),
        tool(
            "find",
            FIND,
            "Find files and folders by a glob pattern; gives paths relative to the folder. What .gitignore names is "
            f"left out. At most 1000 results (see limit) or {_KB} KB.",
        ),
        tool(
            "ls",
            LS,
            "List a folder, hidden entries included; folders end in a slash. At most 500 entries (see limit) or "
            f"{_KB} KB.",
        ),
    ]


def prepare_edit(args: Any) -> Any:
    """What models make of `edits`, put right: one object instead of a list, JSON in a string, `oldText` and `newText`
    beside `path` (as in old transcripts). Anything else is left to the schema.
    """
    if not is_json_object(args):
        return args
    edits = args.get("edits")
    if isinstance(edits, str):
        try:
            edits = json.loads(edits)
        except (ValueError, RecursionError):
            return args
    if is_json_object(edits):
        edits = [edits]
    others = {name: value for name, value in args.items() if name not in ("edits", "oldText", "newText")}
    if edits is None and "oldText" in args and "newText" in args:
        edits = [{"oldText": args["oldText"], "newText": args["newText"]}]
    elif "oldText" in args or "newText" in args:
        return args
    return others if edits is None else {**others, "edits": edits}
