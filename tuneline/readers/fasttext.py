"""Files of fastText: ``__label__NAME`` once or several times, and the text, in each line."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from tuneline.readers.rows import RowProblem
from tuneline.readers.tables import FileTable, Format, Input, Layout, open_lines

PREFIX = "__label__"
LABEL_SEPARATOR = "\t"
"""Between the labels of a row, in the cell of the label: no name of fastText has it."""
FASTTEXT_COLUMNS = ["label", "text"]


@dataclass(frozen=True)
class FastText(Format):
    """Labels before the text."""

    def described(self, layout: Layout) -> str:
        """Return the encoding."""
        return f"fastText, {layout.encoding}"

    def open(self, source: Input, stack: ExitStack) -> "FastTextTable":
        """Open a file."""
        return FastTextTable(source, stack.enter_context(open_lines(source)))


FASTTEXT = FastText("fasttext", (".fasttext", ".ft"))


class FastTextTable(FileTable):
    """An open file: its columns are ``label`` and ``text``."""

    def names(self) -> list[str]:
        """Return the two columns."""
        return FASTTEXT_COLUMNS

    def rows(
        self,
        columns: Mapping[str, str],
        everywhere: Collection[str] | None = None,  # noqa: ARG002
        lists: Collection[str] = (),  # noqa: ARG002
    ) -> Iterator[tuple[int, list[str] | RowProblem]]:
        """Yield the line and the cells of each row, or its problem. Empty lines are skipped."""
        lines = self.lines
        if lines is None:
            return
        for line in lines:
            problem = lines.take_problem() or lines.decoding_problem(line, lines.number)
            if problem is not None:
                yield lines.number, problem
            elif line.strip():
                labels, text = labels_and_text(line)
                cells = {"label": LABEL_SEPARATOR.join(labels), "text": text}
                yield lines.number, [cells[name] for name in columns]
            lines.content = ""


def labels_and_text(line: str) -> tuple[list[str], str]:
    """Return the names of the labels of a line, and its text."""
    labels = []
    rest = line.strip()
    while rest.startswith(PREFIX):
        name, _, rest = rest.partition(" ")
        labels.append(name.removeprefix(PREFIX))
        rest = rest.lstrip()
    return labels, rest
