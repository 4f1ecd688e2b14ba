# (pathlib would take a third of the worker's start)
"""`write` and `edit`: a file gets its new content whole, or stays as it was.

New content goes to a file beside it, which then takes its place: a full disk or a killed process leaves the old one.
Where that is not possible (a hard link, a folder that takes no new files) the file is written in place.
"""

import errno
import os
import stat
from typing import Any

from runner.tools.truncation import count_lines, size_text
from runner.tools.worker.differences import unified_difference
from runner.tools.worker.editing import Edit, apply_edits
from runner.tools.worker.places import Places, Refusal, open_regular, refuse_unless_regular
from runner.tools.worker.text_form import decode_file, encode_file

MAX_EDITED_BYTES = 16 * 1024 * 1024


def write(places: Places, args: dict[str, Any]) -> dict[str, Any]:
    real = places.to_write(args["path"])
    name = places.shown(real)
    if os.path.basename(args["path"]) in ("", ".", ".."):
        raise Refusal(f"{name} is a folder: give the path of a file")
    data = args["content"].encode()
    found = _status(real, name)
    if found is None:
        os.makedirs(os.path.dirname(real), exist_ok=True)
    _store(real, data, found)
    verb = "Created" if found is None else "Replaced"
    text = f"{verb} {name} (lines: {count_lines(args['content'])}, {size_text(len(data))})"
    return {"content": [{"type": "text", "text": text}]}


def edit(places: Places, args: dict[str, Any]) -> dict[str, Any]:
    real = places.to_write(args["path"])
    name = places.shown(real)
    with open_regular(real, name) as file:
        found = os.fstat(file.fileno())
        if found.st_size > MAX_EDITED_BYTES:
            raise Refusal(
                f"{name} has {size_text(found.st_size)}, {size_text(MAX_EDITED_BYTES)} can be edited: use a command"
            )
        data = file.read(MAX_EDITED_BYTES + 1)
    before, form = decode_file(data, name)
    edits = [Edit(item["oldText"], item["newText"]) for item in args["edits"]]
    after = apply_edits(before, edits, name)
    _store(real, encode_file(after.text, form, name), found)
    text = f"Replaced {len(edits)} {'place' if len(edits) == 1 else 'places'} in {name}, from line {after.first_line}"
    if after.loosely:
        text += (
            f" ({after.loosely} of them fitted only when quotes, dashes and blanks at line ends were not taken exactly:"
            " read the file again if that matters)"
        )
    details: dict[str, Any] = {"firstChangedLine": after.first_line}
    diff = unified_difference(before, after.text, name)
    if diff is not None:
        details["diff"] = diff
    return {"content": [{"type": "text", "text": text}], "details": details}


def _status(real: str, name: str) -> os.stat_result | None:
    try:
        found = os.lstat(real)
    except FileNotFoundError:
        return None
    refuse_unless_regular(found.st_mode, name)
    return found


def _store(real: str, data: bytes, found: os.stat_result | None) -> None:
    """Give the file its content; `found` is what stood there before."""
    if found is not None:
        # Replacing a file asks only for rights on its folder; a read-only file is not ours to replace.
        os.close(os.open(real, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    if found is None or found.st_nlink == 1:
        try:
            return _replace(real, data, found)
        except OSError as error:
            if found is None or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
    _overwrite(real, data)
    return None


def _replace(real: str, data: bytes, found: os.stat_result | None) -> None:
    folder = os.path.dirname(real)
    beside = os.path.join(folder, f".{os.urandom(8).hex()}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            _write_all(descriptor, data)
            if found is not None:
                os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
                if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, found.st_uid, found.st_gid)
        finally:
            os.close(descriptor)
        os.replace(beside, real)
    except BaseException:
        os.unlink(beside)
        raise


def _overwrite(real: str, data: bytes) -> None:
    descriptor = os.open(real, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
