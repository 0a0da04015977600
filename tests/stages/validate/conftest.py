from pathlib import Path

import pytest

from stages.validate.checks import Table
from stages.validate.expectations import CheckResults, check_tables
from stages.validate.tables import Profile, derive_tables
from tests.stages.validate.data import Data, good_data
from tuneline.reports.checks import CheckEntry


@pytest.fixture
def data() -> Data:
    """Return valid splits."""
    return good_data()


@pytest.fixture
def check(tmp_path: Path):
    """Return a function that checks data as the stage does."""

    def run(data: Data, promoted: Profile | None = None) -> CheckResults:
        return check_tables(derive_tables(data.params, data.write(tmp_path / "data"), promoted))

    return run


@pytest.fixture
def tables(tmp_path_factory):
    """Return a function that derives the tables of the raw splits, by split."""

    def derive(data: Data) -> dict[str, Table]:
        derived = derive_tables(
            data.params, data.tokenize().write(tmp_path_factory.mktemp("tables") / "data"), None
        )
        return {table.split: table for table in derived.tables if table.kind == "raw"}

    return derive


def failed_result(results: CheckResults) -> CheckEntry:
    """Return the only result that did not pass."""
    (result,) = [result for result in results.record.checks if result.status != "passed"]
    return result
