import random
import re

import pytest
from typer.testing import CliRunner

from tests.tuneline.data_versions import DataVersions
from tuneline.analysis.drift import Distribution
from tuneline.cli import app
from tuneline.cli.data.history import changes_between, is_large, read_versions, rebinned

WORDS = [f"word{number}" for number in range(60)]
HOSTILE = "<script>alert(1)</script>"


def rows(
    number: int, classes: list[str], extra: list[str] | None = None, length: int = 8, seed: int = 1
) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [
        (" ".join(draw.choices(WORDS, k=length) + (extra or [])), classes[row % len(classes)])
        for row in range(number)
    ]


def three_versions(folder) -> DataVersions:
    """Return a repository of three versions, with a commit in between that changes nothing but the code, and
    an uncommitted fourth."""
    project = DataVersions(folder)
    project.check(rows(200, ["billing", "damage"]), rows(40, ["billing", "damage"]))
    project.commit("First data")
    project.git("tag", "--annotate", "onnx@v0.1.0", "--message=v")
    (project.root / "README.md").write_text("later\n")
    project.commit("Write about it")
    project.check(
        rows(260, ["billing", "damage", HOSTILE], ["refund"]),
        rows(40, ["billing"]),
        failed=["duplicates", "leakage"],
    )
    project.commit("Add <b>refunds</b>")
    project.check(rows(260, ["billing", HOSTILE], length=30, seed=2), rows(40, ["billing"]))
    project.commit("Longer texts")
    project.check(rows(300, ["billing", HOSTILE], length=30, seed=3), rows(40, ["billing"]))
    return project


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return three_versions(tmp_path_factory.mktemp("history"))


def run(project, *options):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.root)
        return CliRunner().invoke(app, ["data", "history", *options])


def test_each_version_is_compared_with_the_one_before(history):
    versions = read_versions(history.root, 10)
    assert [version.title for version in versions] == [
        "not committed",
        *history.git("log", "--format=%h", "--", "dvc.lock").split(),
    ]
    assert [list(version.names) for version in versions] == [[], [], [], ["onnx@v0.1.0"]]
    newest, longer, refunds, first = (
        changes_between(*pair) for pair in zip(versions, [*versions[1:], None], strict=True)
    )
    assert (first.labels, first.lengths, list(first.new_words), first.rows) == (
        None,
        None,
        [],
        {"train": 200, "test": 40},
    )
    assert (refunds.new_classes, refunds.gone_classes, refunds.new_words) == ([HOSTILE], [], ["refund"])
    assert (longer.new_classes, longer.gone_classes, longer.gone_words) == ([], ["damage"], ["refund"])
    assert [is_large(change.lengths) for change in (newest, longer)] == [False, True]
    assert is_large(refunds.labels)
    assert not is_large(newest.labels)
    assert [check.check for check in refunds.failed] == ["duplicates", "leakage"]


def test_page_shows_the_versions_newest_first_and_escapes_texts_of_the_data(history):
    done = run(history)
    assert (done.exit_code, done.stdout) == (0, "4 versions of the data: reports/data-history.html\n")
    page = (history.root / "reports/data-history.html").read_text()
    assert "<script" not in page
    assert "<b>refunds" not in page
    at = [page.index(words) for words in ("not committed</span>", "Longer texts", "refunds", "First data")]
    assert at == sorted(at)
    assert re.search(r"new words</span>refund<", page)
    assert re.search(r"gone classes</span>damage<", page)
    assert page.count("<figure") == 6
    run(history)
    assert (history.root / "reports/data-history.html").read_text() == page, "same versions, same bytes"


def test_last_limits_the_versions_and_the_oldest_is_still_compared(history):
    assert run(history, "--last", "2", "--output", "short.html").stdout.startswith("2 versions")
    page = (history.root / "short.html").read_text()
    (history.root / "short.html").unlink()
    assert "First data" not in page
    assert "gone classes" in page, "against a version that is not shown"


def test_version_whose_profile_is_not_in_the_cache_is_named_with_the_command_that_fetches_it(tmp_path):
    project = DataVersions(tmp_path)
    for number, message in ((50, "One"), (60, "Two")):
        project.check(rows(number, ["billing", "damage"]), rows(20, ["billing"]))
        project.commit(message)
    for path in (tmp_path / ".dvc/cache/files/md5").rglob("*"):
        if path.is_file() and b'"rows": 50' in path.read_bytes():
            path.unlink()
    done = run(project)
    assert done.exit_code == 0
    assert (
        "The profile of 1 of 2 versions is not in DVC's cache: `dvc fetch --all-commits reports/checks`"
        in done.output
    )
    page = (tmp_path / "reports/data-history.html").read_text()
    assert "dvc fetch --all-commits reports/checks" in page
    assert '<td class="num" data-label="train"><span>50' in page, "from metrics/validate.json"


def test_versions_of_another_task_are_left_out(tmp_path):
    project = DataVersions(tmp_path)
    for source, classes in (
        ("tickets", ["billing"]),
        ("reviews", ["good", "bad"]),
        ("tickets", ["billing", "damage"]),
    ):
        project.check(rows(60, classes), rows(20, classes), source=source)
        project.commit(f"Learn from {source}")
    project.check(rows(70, ["billing", "damage"]), rows(20, ["billing"]))
    versions = read_versions(tmp_path, 10)
    assert [version.profile.train.rows for version in versions] == [70, 60, 60]
    assert list(changes_between(*versions[1:]).new_classes) == ["damage"]
    project.check(rows(90, ["good", "bad"]), rows(20, ["good"]), source="others")
    assert [version.profile.train.rows for version in read_versions(tmp_path, 10)] == [90]


def test_repository_without_a_version_is_an_error(tmp_path):
    project = DataVersions(tmp_path)
    assert "No commit has a version of the data." in run(project).output
    project.commit("Nothing yet")
    assert run(project).exit_code == 1


def test_distribution_in_its_own_bins_is_unchanged():
    distribution = Distribution((1.0, 2.0, 5.0), (3, 4, 5, 6))
    assert rebinned(distribution, distribution.edges).tolist() == [3, 4, 5, 6]
    assert rebinned(distribution, (0.5, 3.5, 9.0)).sum() == 18
