import random
from pathlib import Path

import pytest

from tests.tuneline.cli.init.test_init import downloaded, init
from tuneline.params.loading import load_params

WORDS = "parcel invoice login refund courier password address label order card week today broken late".split()


def write_groups(path, rows=6, alike=True, groups=60):
    """Write rows of customers: each has some words of its own in all of its texts, or none."""
    generator = random.Random(0)
    lines = []
    for customer in range(groups):
        own = [f"{customer}x{number}" for number in range(5)]
        label = generator.choice(["good", "bad"])
        for _ in range(rows):
            text = generator.sample(WORDS, 5)
            if alike:
                text += generator.sample(own, 4)
            lines.append(f"c{customer},{' '.join(text)} {generator.random():.6f},{label}")
    generator.shuffle(lines)
    path.write_text("customer,text,label\n" + "\n".join(lines) + "\n")
    return path


def customers(splits):
    lines = Path("data/source/rows/all.csv").read_text().splitlines()
    names = [line.split(",")[0] for line in lines[1:]]
    return {split: {names[row] for row in rows} for split, rows in splits.items()}


def test_column_whose_rows_are_alike_is_kept_in_one_split_with_the_reason(project):
    done = init(write_groups(project / "rows.csv"), "--yes")
    assert done.exit_code == 0, done.output
    assert load_params().data.split.by == "customer"
    assert (
        "by 'customer' has 6.0 rows per value, and texts of one value have a similarity of 0." in done.output
    )
    divided = customers(downloaded())
    assert not divided["train"] & divided["test"]


def test_user_decides_against_the_groups_and_the_decision_stays(project):
    file = write_groups(project / "rows.csv")
    init(file, "--no-by", "--yes")
    assert load_params().data.split.by is None
    done = init(file, "--yes")
    assert load_params().data.split.by is None
    assert "! 'customer' has 6.0 rows per value" in done.output
    init(file, "--by", "customer", "--yes")
    init(file, "--yes")
    assert load_params().data.split.by == "customer"


@pytest.mark.parametrize(("rows", "groups"), [(1, 400), (150, 4)], ids=["ids", "categories"])
def test_ids_and_categories_are_no_groups(project, rows, groups):
    done = init(write_groups(project / "rows.csv", rows=rows, groups=groups), "--yes")
    assert load_params().data.split.by is None
    assert "rows per value" not in done.output


def test_equal_or_unlike_texts_of_a_value_are_no_reason(project):
    """Equal ones are in one split anyway."""
    lines = [
        f"c{row // 3},text {row // 3} of {WORDS[row // 3 % 14]},{'ab'[row // 3 % 2]}" for row in range(300)
    ]
    file = project / "rows.csv"
    file.write_text("customer,text,label\n" + "\n".join(lines) + "\n")
    assert "rows per value" not in init(file, "--yes").output
    assert "rows per value" not in init(write_groups(file, alike=False), "--force").output
    assert load_params().data.split.by is None


DATES = [f"2024-{row % 12 + 1:02}-{row % 28 + 1:02}" for row in range(300)]


def write_dates(path):
    lines = [f"{date},text of row {row},{'ab'[row % 2]}" for row, date in enumerate(DATES)]
    path.write_text("created,text,label\n" + "\n".join(lines) + "\n")
    return path


def test_rows_are_divided_by_time_where_the_user_says_so_and_it_stays(project):
    file = write_dates(project / "rows.csv")
    done = init(file, "--yes")
    assert "--by-time 'created' tests on the latest rows" in done.output
    for words in (["--by-time", "created"], []):
        done = init(file, *words, "--yes")
        assert done.exit_code == 0, done.output
        assert load_params().data.split.by_time == "created"
        assert "the latest rows by 'created' are test" in done.output
        assert "has dates" not in done.output
