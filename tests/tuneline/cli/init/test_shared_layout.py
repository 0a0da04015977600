from pathlib import Path

import pytest

from tests.params import params
from tuneline.cli.init import make_plan
from tuneline.cli.init.planning import UserChoices
from tuneline.sniffing.files import UnclearHeaderError

UNCLEAR = "price,a,some words\n" + "".join(
    f"{number}.5,{'ab'[number % 2]},day {number} is here\n" for number in range(60)
)
"""The numbers say that the first line is a header, and the classes that it is a row."""


def test_first_line_that_can_be_read_in_two_ways_stops_with_the_option_for_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(UNCLEAR)
    with pytest.raises(UnclearHeaderError) as unclear:
        make_plan([Path("a.csv")], UserChoices(), params(), may_ask=False)
    assert "'price', 'a', 'some words'" in unclear.value.problem
    assert "add --header" in unclear.value.hint
    assert "add --no-header" in unclear.value.hint


@pytest.mark.parametrize("answer", [True, False])
def test_first_line_that_can_be_read_in_two_ways_is_asked_for(tmp_path, monkeypatch, answer):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(UNCLEAR)
    asked = []
    monkeypatch.setattr("typer.confirm", lambda question, **_: asked.append(question) or answer)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: 1)  # which column is the label
    made = make_plan([Path("a.csv")], UserChoices(), params(), may_ask=True)
    assert len(asked) == 1
    assert (made.layout.columns is None) is answer
    assert list(made.columns) == (
        ["price", "a", "some words"] if answer else ["column_1", "column_2", "column_3"]
    )
