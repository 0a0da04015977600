import random

import pytest

from tests.tuneline.cli.init.test_init import downloaded, init
from tuneline.core.params.loading import load_params

WORDS = "parcel invoice login refund courier password address label order card week today broken late".split()


def write_groups(path, rows=6, groups=60):
    """Write rows of customers."""
    generator = random.Random(0)
    lines = []
    for customer in range(groups):
        for _ in range(rows):
            text = " ".join(generator.sample(WORDS, 5))
            label = generator.choice(["good", "bad"])
            lines.append(f"c{customer},{text} {generator.random():.6f},{label}")
    generator.shuffle(lines)
    path.write_text("customer,text,label\n" + "\n".join(lines) + "\n")
    return path


def test_column_of_a_few_rows_per_value_is_named_and_divides_where_the_user_says_so(project):
    file = write_groups(project / "rows.csv")
    assert "--by 'customer' keeps them in one split" in init(file, "--yes").output
    assert load_params().data.split.by is None
    for words in (["--by", "customer"], []):
        done = init(file, *words, "--yes")
        assert load_params().data.split.by == "customer"
        assert "rows per value" not in done.output
    splits = downloaded()
    names = [line.split(",")[0] for line in file.read_text().splitlines()[1:]]
    train = {names[row] for row in splits["train"]}
    assert not train & {names[row] for row in splits["test"]}


@pytest.mark.parametrize(("rows", "groups"), [(1, 400), (150, 4)], ids=["ids", "categories"])
def test_ids_and_categories_are_no_groups(project, rows, groups):
    done = init(write_groups(project / "rows.csv", rows=rows, groups=groups), "--yes")
    assert "rows per value" not in done.output


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
