"""The data checks of the user: functions in ``project/`` that ``validate.own`` names."""

import inspect
from collections.abc import Iterator, Mapping, Sequence

from tuneline.checks.definitions import Check, Requirement, Table
from tuneline.checks.raw import RawSplit
from tuneline.core.params import ValidateParams
from tuneline.core.runtime.terminal import phase
from tuneline.judge.metrics.functions import ProjectFunction, chosen_rows, load_function

PARAMETER = "validate.own"


def load_checks(params: ValidateParams) -> list[ProjectFunction]:
    """Import the functions of the user that ``validate.own`` names."""
    return [load_function(PARAMETER, name, "texts") for name in params.functions]


def own_tables(
    functions: Sequence[ProjectFunction], raw: Mapping[str, RawSplit], text_columns: Sequence[str]
) -> Iterator[Table]:
    """Yield a table for each raw split, with a column for each check: False where a row violates it.

    Raises:
        ParamsError: A function fails, or its result does not fit the rows.
    """
    if not functions:
        return
    phase(PARAMETER)
    checks = [own_check(function) for function in functions]
    for split, current in raw.items():
        texts = current.source.read(text_columns)
        satisfied = {}
        for function in functions:
            violates = chosen_rows(function, texts, current.labels, current.task, split)
            satisfied[function.name.function] = ~violates
        yield Table("own", split, satisfied, own=checks)


def own_check(function: ProjectFunction) -> Check:
    """Return the check of a function, whose title is the first sentence of its docstring, or its name."""
    name = function.name.function
    docstring = inspect.getdoc(function.target) or name.replace("_", " ").capitalize()
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    sentence = paragraph.partition(". ")[0].rstrip(".")
    return Check(
        name,
        "own",
        (Requirement(name, values=[True]),),
        title=f"{sentence}.",
        hint=f"Correct these rows in the source and run `dvc repro`. {function.name} says which they are.",
    )
