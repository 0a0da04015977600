"""A clock that is months ahead: every result looks old."""

import time

import pytest

from flows.clean import CLEANED, DAY, PAUSE, Cleaned, clock_problem
from tests.faults.clones import git
from tests.flows.clean.conftest import cleaning_of
from tuneline.core.written_records import write_record

AHEAD = time.time() + 100 * DAY


@pytest.fixture
def cleaned(clone):
    """The last cleaning was six days ago."""
    write_record(clone.state / CLEANED, Cleaned(time=time.time() - 6 * DAY))


@pytest.mark.promise("wrong-clock")
def test_clock_that_is_ahead_is_named_with_the_last_cleaning_and_what_to_do(clone, cleaned):
    assert clock_problem(cleaning_of(clone, branch_days=90)) is None
    assert clock_problem(cleaning_of(clone, branch_days=90, now=time.time() + 80 * DAY)) is None
    problem = clock_problem(cleaning_of(clone, branch_days=90, now=AHEAD))
    date = time.strftime("%Y-%m-%d", time.gmtime(AHEAD))
    assert problem.startswith(f"The clock of this machine says {date} ")
    assert "106 days after the last cleaning (" in problem
    assert "correct it" in problem
    assert "--param clock_is_right=true" in problem


def test_results_that_were_dated_by_the_same_clock_do_not_hide_it(clone, past, cleaned):
    past.run("tonight", -100)
    assert "after the last cleaning" in clock_problem(cleaning_of(clone, branch_days=90, now=AHEAD))


def test_before_the_first_cleaning_the_newest_commit_of_any_ref_tells(clone, past):
    git(clone.root, "commit", "--quiet", "--amend", "--reset-author", "--no-edit")
    assert "100 days after the newest commit" in clock_problem(cleaning_of(clone, branch_days=90, now=AHEAD))
    past.run("tonight", -20)
    assert clock_problem(cleaning_of(clone, branch_days=90, now=AHEAD)) is None


def test_quiet_project_that_is_cleaned_every_week_has_no_problem(clone, past, cleaned):
    past.run("old", 400)
    assert clock_problem(cleaning_of(clone, branch_days=90)) is None


@pytest.mark.parametrize(
    ("retention", "days"), [({"branch_days": 7}, PAUSE), ({"branch_days": 90, "scored_days": 60}, 60)]
)
def test_limit_is_what_results_are_kept_and_no_less_than_a_pause(clone, cleaned, retention, days):
    for more, ahead in ((-7, False), (-5, True)):
        problem = clock_problem(cleaning_of(clone, now=time.time() + (days + more) * DAY, **retention))
        assert (problem is not None) == ahead


def test_what_is_kept_for_ever_needs_no_clock(clone, cleaned):
    assert clock_problem(cleaning_of(clone, now=AHEAD)) is None
