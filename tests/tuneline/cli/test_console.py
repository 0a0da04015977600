import io
import os
import subprocess
import sys

from rich.table import Table
from rich.text import Text

from tuneline.cli.console import Console
from tuneline.core.runtime.terminal import CONTROL_CHARACTERS

CLEAR_SCREEN = "\x1b[2J"


def printed(*renderables) -> str:
    """What is written to a terminal with colours."""
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=True, color_system="standard", width=60, legacy_windows=False
    )
    for renderable in renderables:
        console.print(renderable)
    return stream.getvalue()


def test_escape_sequence_in_a_text_is_shown_and_colours_stay():
    assert printed(Text(f"label {CLEAR_SCREEN}", "bold red")) == "\x1b[1;31mlabel \\x1b[2J\x1b[0m\n"
    assert CLEAR_SCREEN not in printed(f"label {CLEAR_SCREEN}")


def test_cells_of_a_table_are_shown():
    table = Table(title=f"First rows {CLEAR_SCREEN}")
    table.add_column(Text("text\u202e"))
    table.add_row(Text(f"a{CLEAR_SCREEN}b"))
    assert {*CONTROL_CHARACTERS.findall(printed(table))} <= {"\x1b"}, (
        "the console's own, of the title's style"
    )
    assert CLEAR_SCREEN not in printed(table)


def test_name_of_a_file_is_shown_in_an_error_of_a_command(tmp_path):
    """Also one that is not UTF-8, which Python could not print at all."""
    name = os.fsencode(f"{CLEAR_SCREEN}\u202e") + b"\xff.csv"
    done = subprocess.run(
        [sys.executable, "-c", "from tuneline.cli import app; app()", "predict", name],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    error = done.stderr.decode()
    assert error.startswith(r"tuneline predict: \x1b[2J\u202e\udcff.csv does not exist.")
    assert not CONTROL_CHARACTERS.search(error)
