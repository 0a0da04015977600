"""Files of the data checks."""

from tuneline.core.written_records import write_record
from tuneline.reports.checks import Profile


def test_profile_is_one_line_because_it_is_in_git(tmp_path):
    profile = Profile(version=1, labels=("grün", "rot"), splits={})
    path = tmp_path / "profile.json"
    write_record(path, profile)
    assert path.read_text().count("\n") == 1
    assert Profile.read(path).labels == ["grün", "rot"]
