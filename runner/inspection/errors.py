"""Why a source cannot be read. Every sentence names the place and says how much was read before it."""

from runner.errors import Refused


class SourceFailed(Refused):
    """The source is missing, damaged, or no source at all (exit 78).

    `reason`: `not_a_source`, `missing`, `damaged`, `wrong_digest`, `too_large`. `place`: the address of the object, or
    the line. `read_bytes`, `read_lines`: what of the session had been read and checked by then.
    """

    def __init__(self, reason: str, place: str, what: str, *, read_bytes: int = 0, read_lines: int = 0) -> None:
        lines = "1 line was" if read_lines == 1 else f"{read_lines:,} lines were"
        so_far = f"{lines} read before it ({read_bytes:,} bytes)" if read_bytes else "nothing was read before it"
        super().__init__(reason, [f"{place}: {what}; {so_far}"])
        self.place = place
        self.read_bytes = read_bytes
        self.read_lines = read_lines
