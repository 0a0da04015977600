from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, create_model

from tuneline.cli.explain import describe_type
from tuneline.params.section import Section


class Inner(Section):
    """A section inside another."""

    rank: int


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (bool, "true | false"),
        (str, "text"),
        (int | None, "integer, or null"),
        (Annotated[int, Field(ge=1)] | None, "integer >= 1, or null"),
        (Annotated[float, Field(ge=0, lt=1)], "number >= 0 and < 1"),
        (Annotated[float, Field(ge=0, le=1)], "number from 0 to 1"),
        (Annotated[str, Field(pattern="^a+$")], "text that matches ^a+$"),
        (Literal["best"], "best"),
        (Literal["best", "last"] | None, "best | last, or null"),
        (list[str], "list of text"),
        (Annotated[list[str], Field(min_length=1)], "list of at least 1: text"),
        (Annotated[list[str], Field(max_length=2)], "list of 0 to 2: text"),
        (
            Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=2, max_length=2)],
            "list of 2: number > 0",
        ),
        (dict[str, Any], "mapping"),
        (Literal["balanced"] | dict[str, float], "balanced, or mapping of names to number"),
        (Inner, "section"),
        (Inner | None, "section, or null"),
    ],
)
def test_type_in_words(annotation, words):
    schema = create_model("Model", __base__=Section, key=(annotation, ...)).model_json_schema()
    assert describe_type(schema["properties"]["key"], schema.get("$defs", {})) == words
