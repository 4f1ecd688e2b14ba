"""Text that enters the process is cleaned here, once, so that no later line, request or store can choke on
it.

Refuses to change anything that is already clean: the very same object comes back, whatever its size.
What is cleaned: lone surrogates (no UTF-8 can hold them) and NUL (databases and C programs stop at it). Both
become U+FFFD, so that a reader still sees that something stood there; two halves of one pair are joined.
"""

from typing import Any, cast

_REPLACEMENT = "\ufffd"


def clean_text(text: str) -> str:
    """`text` without lone surrogates and NUL; the same object if it has none."""
    if "\0" in text:
        text = text.replace("\0", _REPLACEMENT)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_json(value: Any) -> Any:
    """A JSON value whose strings and keys are all clean; the same object if they already were.

    Works without recursion: a model may nest its arguments as deep as it likes.
    """
    if _is_clean(value):
        return value
    root: list[Any] = [value]
    todo: list[list[Any] | dict[str, Any]] = [root]
    while todo:
        container = todo.pop()
        if isinstance(container, list):
            for index, item in enumerate(container):
                container[index] = _cleaned(item, todo)
        else:
            items = list(container.items())
            container.clear()
            for key, item in items:
                container[clean_text(key)] = _cleaned(item, todo)
    return root[0]


def _cleaned(item: Any, todo: list[list[Any] | dict[str, Any]]) -> Any:
    """A clean string, a copy of a container that is put on `todo`, or the item itself."""
    if isinstance(item, str):
        return clean_text(item)
    if isinstance(item, (list, tuple)):
        copied_list = list(cast("list[Any]", item))
        todo.append(copied_list)
        return copied_list
    if isinstance(item, dict):
        copied_dict = dict(cast("dict[str, Any]", item))
        todo.append(copied_dict)
        return copied_dict
    return item


def _is_clean(value: Any) -> bool:
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            if clean_text(item) is not item:
                return False
        elif isinstance(item, (list, tuple)):
            todo.extend(cast("list[Any]", item))
        elif isinstance(item, dict):
            mapping = cast("dict[str, Any]", item)
            todo.extend(mapping)
            todo.extend(mapping.values())
    return True
