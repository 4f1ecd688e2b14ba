"""Output of a command as plain text. Pure.

What a terminal would act on instead of show (colours, cursor movements, titles, links) is taken out; of a line that
was overwritten by carriage returns the last state is left; other control characters become U+FFFD, tabs and line ends
stay. The kept file of a long output has the bytes as they came.
"""

import re

_ESCAPES = re.compile(
    r"""
    \x1b\[ [0-?]* [ -/]* [@-~]                  # CSI: colours, cursor
    | \x9b [0-?]* [ -/]* [@-~]
    | [\x9d\x90\x98\x9e\x9f] [^\x07\x1b\x9c\n]{0,4096} (?: \x07 | \x1b\\ | \x9c )?
    | \x1b[\]PX^_] [^\x07\x1b\x9c\n]{0,4096} (?: \x07 | \x1b\\ | \x9c )?   # OSC and other strings
    | \x1b [ -/]* [0-~]                         # two-character sequences
    | \x1b
    """,
    re.VERBOSE,
)
_BACKSPACES = re.compile(r"[^\n\x08]\x08")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


def plain_text(output: bytes) -> str:
    """The text of some output; bytes that are no UTF-8 become U+FFFD."""
    text = output.decode("utf-8", "replace")
    if text.isprintable():
        return text
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    if "\x08" in text:
        text = _BACKSPACES.sub("", text)
    return _CONTROLS.sub("\ufffd", text)
