"""What each entry point reads: a module that is imported without need is one more to understand, and to load.

``python -m benchmarks.closures`` prints the numbers.
"""

import pytest

from benchmarks.closures import MOST
from tests.conftest import ROOT
from tests.imports import closure


@pytest.mark.parametrize("entry", MOST)
def test_entry_point_reads_no_more_than_it_needs(entry):
    modules = closure(entry, ROOT)
    assert len(modules) <= MOST[entry], sorted(map(str, modules))
