"""``tuneline explain``: the meaning, type and default of a parameter, and the stages that a change of it reruns."""

from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from tuneline.terminal import say

if TYPE_CHECKING:
    from tuneline.cli.console import Console
    from tuneline.cli.explain.reference import Parameter
    from tuneline.cli.explain.reruns import Reruns

Key = Annotated[str | None, typer.Argument(help="A parameter or a section: train.warmup_ratio, train. All sections unless given")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print the reference of all parameters, docs/parameters.md, as Markdown")]


def command(key: Key = None, markdown: AsMarkdown = False) -> None:
    """Explain a parameter of params.yaml: its meaning, type and default, and which stages a change of it reruns."""
    from tuneline.cli.console import Console
    from tuneline.cli.explain.page import markdown_page
    from tuneline.cli.explain.reference import find, read_reference

    reference = read_reference()
    console = Console(highlight=False)
    if markdown:
        if key is not None:
            raise typer.BadParameter("--markdown prints all parameters; leave out the key.")
        say(markdown_page(reference).removesuffix("\n"))
    elif key is None:
        print_sections(console, reference)
    else:
        print_parameter(console, find(reference, key))


def print_sections(console: "Console", sections: tuple["Parameter", ...]) -> None:
    """Print key and meaning of each section."""
    for section in sections:
        _print_wrapped(console, f"{section.key:<10}{section.meaning}", " " * 10, bold=len(section.key))
    console.print("\ntuneline explain train               all parameters of a section\ntuneline explain train.warmup_ratio  one parameter")


def print_parameter(console: "Console", parameter: "Parameter") -> None:
    """Print one parameter; for a section, also all parameters in it."""
    from tuneline.cli.explain.reference import common_reruns, nested

    reruns = common_reruns(parameter)
    _print_entry(console, parameter, reruns)
    for child in (*parameter.children, *nested(parameter)):
        console.print()
        _print_entry(console, child, None if child.reruns == reruns else child.reruns)


def _print_entry(console: "Console", parameter: "Parameter", reruns: "Reruns | None") -> None:
    _print_wrapped(console, parameter.key, "", bold=len(parameter.key))
    _print_wrapped(console, f"    {parameter.meaning}", "    ")
    if parameter.type:
        _print_wrapped(console, f"    Type: {parameter.type}. Default: {parameter.default}", "    ")
    if reruns is not None:
        _print_wrapped(console, f"    A change reruns {reruns}", "    ")


def _print_wrapped(console: "Console", line: str, indent: str, bold: int = 0) -> None:
    """Print a line that is wrapped at word boundaries, its first ``bold`` characters in bold, without trailing spaces."""
    from rich.text import Text

    text = Text(fill(line, min(console.width, 100), subsequent_indent=indent, break_on_hyphens=False))
    text.stylize("bold", 0, bold)
    console.print(text, soft_wrap=True)
