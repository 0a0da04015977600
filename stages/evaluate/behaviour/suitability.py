"""Whether a test suits the data: its classes, and the number of texts in a row."""

import re
from collections.abc import Iterator

from stages.evaluate.behaviour.suite import AnyTest, Direction, Label, MinimumFunctionality, Range
from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema

BLANK = re.compile(r"\{(\w+)\}")
"""Something to fill in, in a template."""
_OUT = "evaluate.behaviour: null leaves these tests out."


def check(test: AnyTest, texts: int, label_schema: LabelSchema) -> None:
    """Holds a test against the data it is for.

    Args:
        test: Of ``conf/behaviour/NAME.yaml``.
        texts: Number of texts in a row.
        label_schema: What the labels mean.

    Raises:
        ParamsError: It does not suit them.
    """
    key = f"evaluate.behaviour, {test.name!r}"
    for problem in [*_of_templates(test, texts), *_of_task(test, label_schema)]:
        raise ParamsError(f"{key}: {problem}", f"Mend the file; {_OUT}")
    if test.change in ("swap_texts", "same_text") and texts != 2:
        raise ParamsError(f"{key}: {test.change} needs rows of two texts.", f"Take the test out; {_OUT}")
    for name in ("where", "label", "expect"):
        label = getattr(test, name, None)
        if label is not None and not isinstance(label, Range):
            label_id(label, label_schema, f"{key}, {name}")


def label_id(label: Label, label_schema: LabelSchema, key: str) -> int:
    """The id of a class given by name or id.

    Raises:
        ParamsError: The data has no such class.
    """
    names = label_schema.names or ()
    if isinstance(label, str) and label in names:
        return names.index(label)
    if isinstance(label, int) and 0 <= label < len(names):
        return label
    known = f"Its classes are {', '.join(map(repr, names))}." if names else "It has none: this is a regression."
    raise ParamsError(f"{key}: {label!r} is no class of the data. {known}", _OUT)


def _of_templates(test: AnyTest, texts: int) -> Iterator[str]:
    for template in test.templates or []:
        if len(template) != texts:
            yield f"a template has {len(template)} text(s), a row has {texts}."
        for blank in BLANK.findall(" ".join(template)):
            if blank not in test.fill:
                yield f"nothing to fill in for {{{blank}}}."


def _of_task(test: AnyTest, label_schema: LabelSchema) -> Iterator[str]:
    if isinstance(test, Direction) and label_schema.is_regression != (test.label is None):
        yield "label says whose probability moves: a class, or null for a regression."
    if isinstance(test, MinimumFunctionality) and label_schema.is_regression != isinstance(test.expect, Range):
        yield "expect is a class, or low and high for a regression."
