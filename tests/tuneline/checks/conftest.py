from collections.abc import Collection

import pytest

from tests.tuneline.checks.data import Data, good_data
from tuneline.checks import definitions as checks
from tuneline.checks.definitions import CHECK_TABLE
from tuneline.checks.expectations import CheckResults, check_tables
from tuneline.checks.results import CheckEntry
from tuneline.checks.tables import Profile, derive_tables


@pytest.fixture
def data() -> Data:
    """Return valid splits."""
    return good_data()


@pytest.fixture
def check(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """Return a function that checks data as the stage does.

    The checks whose keys are in ``only`` take a tenth of the time of all.
    """

    def run(data: Data, promoted: Profile | None = None, only: Collection[str] = ()) -> CheckResults:
        folders = data.write(tmp_path_factory.mktemp("checked") / "data")
        derived = derive_tables(data.params, folders, promoted)
        with monkeypatch.context() as patch:
            if only:
                patch.setattr(checks, "CHECK_TABLE", {key: CHECK_TABLE[key] for key in only})
            return check_tables(derived)

    return run


def failed_result(results: CheckResults) -> CheckEntry:
    """Return the only result that did not pass."""
    (result,) = [result for result in results.record.checks if result.status != "passed"]
    return result
