"""A folder with parameters, and small files to start from."""

import pytest

from tests.params import write_params

TICKETS = [
    ("the parcel never came", "delivery"),
    ("Where is my parcel?", "delivery"),
    ("it arrived broken, in two pieces", "damage"),
    ("the box was crushed", "damage"),
]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project with parameters; the working directory."""
    write_params(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tickets(project):
    """A CSV of 40 tickets, sorted by label as exports often are."""
    rows = sorted(((f"{text} ({number})", label) for number in range(10) for text, label in TICKETS), key=lambda row: row[1])
    path = project / "tickets.csv"
    path.write_text("id,text,label\n" + "".join(f'{number},"{text}",{label}\n' for number, (text, label) in enumerate(rows)))
    return path
