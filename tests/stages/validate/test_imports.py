"""Which libraries the stage imports: Great Expectations would import some more, for a third of the stage's processor time."""

import subprocess
import sys

from tests.conftest import ROOT

SCRIPT = """
import sys
from stages.validate.imports import DEFERRED, UNUSED, fewer_imports

with fewer_imports():
    from stages.validate import columns, report, runner
from great_expectations.expectations.core import ExpectColumnValuesToBeBetween
import pandas as pd

expectation = ExpectColumnValuesToBeBetween(column="length", max_value=5, meta={"check": "rows"})
table = runner.Table("raw", "train", columns.FrameColumns(pd.DataFrame({"length": [1, 9]})), [expectation])
[suite] = runner.run_suites([table])
[outcome] = runner.read_outcomes([table], [suite])
assert outcome.failing == 1, outcome
assert "length" in report.OfflinePageView().page(suite)

loaded = {name for name in sys.modules if any(name.startswith(f"{library}.") for library in (*DEFERRED, *UNUSED))}
assert not loaded, f"loaded although no check needs them: {sorted(loaded)[:9]}"
import altair, scipy.stats, sqlalchemy
assert altair.Chart and scipy.stats.norm.cdf(0) == 0.5 and sqlalchemy.create_engine
"""


def test_stage_imports_no_library_that_only_other_parts_of_great_expectations_use():
    """The libraries are there after the stage's imports, for what needs them."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
