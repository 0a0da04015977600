"""rich's console, for everything that the command line prints in tables and colours."""

from collections.abc import Iterable

from rich import console as rich
from rich.segment import Segment

from tuneline.core.runtime.terminal import visible


class Console(rich.Console):  # noqa: TID251
    """A console whose colours and cursor movements are its own: those in a text are printed as codes.

    rich lays tables out before: cells that hold texts of data are made ``visible`` by who makes the table, or
    they are cut.
    """

    def render(
        self, renderable: rich.RenderableType, options: rich.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is written to the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
