import pytest

from tuneline.rows.proposals.spreadsheet import harmless


@pytest.mark.parametrize(
    "cell",
    [
        "=HYPERLINK(1)",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "\uff1d1+1",
        "\uff201",
    ],
)
def test_cell_that_a_spreadsheet_would_execute_begins_with_a_space(cell):
    assert harmless(cell) == f" {cell}"


@pytest.mark.parametrize("cell", ["-12", "+1.5", "-0.5", -0.5, "a=b", "", 0.5])
def test_harmless_cell_is_as_it_was(cell):
    assert harmless(cell) == cell
