"""Progress is shown on a terminal and nowhere else."""

import io
import subprocess
import sys

from runner.inspection.meter import NoMeter, shown_meter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_bar_shows_how_far_it_is_and_then_goes() -> None:
    terminal = Terminal()
    with shown_meter(terminal) as meter:
        meter.begin("reading \x1b[31mthe session [bold]", 3_000_000)
        meter.advance(1_500_000)
        meter.begin("replaying", None, "turns")
        meter.advance(2)
    shown = terminal.getvalue()
    assert "turn 2" in shown
    assert "\x1b[31mthe" not in shown


def test_where_there_is_no_terminal_nothing_is_written() -> None:
    stream = io.StringIO()
    with shown_meter(stream) as meter:
        meter.begin("reading", 10)
        meter.advance(10)
    assert isinstance(meter, NoMeter)
    assert stream.getvalue() == ""


def test_rich_is_not_even_imported_without_a_terminal() -> None:
    code = "import io, sys\nfrom runner.inspection.meter import shown_meter\nwith shown_meter(io.StringIO()): pass\n"
    code += "sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
