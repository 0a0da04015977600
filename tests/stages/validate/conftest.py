from pathlib import Path

import pytest

from stages.validate.checking import Checked, check
from stages.validate.profile import Profile
from tests.stages.validate.data import Data, good_data


@pytest.fixture
def data() -> Data:
    """Splits without a fault."""
    return good_data()


@pytest.fixture
def checked(tmp_path: Path):
    """Checks some data as the stage does."""

    def run(data: Data, promoted: Profile | None = None) -> Checked:
        return check(data.params, data.write(tmp_path / "data"), promoted)

    return run
