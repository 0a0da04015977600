import pytest

from tests.tuneline.cli.init.test_init import init
from tuneline.params.loading import load_params


def write_dates(path, dates):
    lines = [f"{date},text of row {row},{'ab'[row % 2]}" for row, date in enumerate(dates)]
    path.write_text("created,text,label\n" + "\n".join(lines) + "\n")
    return path


DATES = [f"2024-{row % 12 + 1:02}-{row % 28 + 1:02}" for row in range(300)]


def test_date_column_is_named_with_what_a_random_split_means(project):
    done = init(write_dates(project / "rows.csv", DATES), "--yes")
    assert "'created' is a date, from 2024-01-01 to 2024-12-28" in done.output
    assert "--by-time 'created'" in done.output
    assert load_params().data.split.by_time is None


def test_rows_are_divided_by_time_where_the_user_says_so_and_it_stays(project):
    file = write_dates(project / "rows.csv", DATES)
    for words in (["--by-time", "created"], []):
        done = init(file, *words, "--yes")
        assert done.exit_code == 0, done.output
        assert load_params().data.split.by_time == "created"
        assert "the latest rows by 'created' are test" in done.output
        assert "is a date" not in done.output


def test_day_that_can_be_the_month_is_named(project):
    dates = [f"{row % 12 + 1:02}/{(row // 12) % 12 + 1:02}/2024" for row in range(300)]
    done = init(write_dates(project / "rows.csv", dates), "--yes")
    assert "it is not clear which number is the day (%d/%m/%Y or %m/%d/%Y)" in done.output


@pytest.mark.parametrize("dates", [range(1900, 2200), ["2024-01-01"] * 300, ["x", "y", "z"] * 100])
def test_other_columns_are_no_dates(project, dates):
    file = write_dates(project / "rows.csv", dates)
    file.write_text(file.read_text().replace("created", "reference", 1))
    assert "is a date" not in init(file, "--yes").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by-time", "sent"], "no column 'sent' (--by-time)"),
        (["--by-time", "created", "--by", "text"], "--by and --by-time contradict each other"),
    ],
)
def test_division_that_cannot_be_is_refused(project, words, message):
    done = init(write_dates(project / "rows.csv", DATES), *words, "--yes")
    assert done.exit_code != 0
    assert message in done.output + str(done.exception)
