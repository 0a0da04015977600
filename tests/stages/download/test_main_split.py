"""``data.split``: one split of the source becomes three, the same ones each time, and ``source.json`` records
how."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stages.download.made import parquet
from tuneline.core.runtime.errors import DataError, StageError

SPLIT = {"validation": 0.1, "test": 0.1}
ROWS = [
    {"text": f"text number {row}", "label": "ham" if row % 3 else "spam", "customer": row // 4}
    for row in range(400)
]
CSV = "text,label,customer\n" + "".join(f"{row['text']},{row['label']},{row['customer']}\n" for row in ROWS)
ALL = {"splits": {"train": "all"}, "split": SPLIT}


def sizes(tables):
    return {split: table.num_rows for split, table in tables.items()}


def customers(table):
    return {row // 4 for row in table["idx"].to_pylist()}


def test_one_file_gives_three_splits_with_every_row_once(download):
    tables = download({"all.csv": CSV}, ALL)
    assert sizes(tables) == pytest.approx({"train": 320, "validation": 40, "test": 40}, abs=2)
    rows = pa.concat_tables(tables.values()).sort_by("idx")
    assert rows["text"].to_pylist() == [row["text"] for row in ROWS]
    assert rows["idx"].to_pylist() == list(range(400))


def test_rows_of_a_customer_are_together_and_the_column_is_not_written(download):
    tables = download({"all.csv": CSV}, {**ALL, "split": {**SPLIT, "by": "customer"}})
    assert sum(len(customers(table)) for table in tables.values()) == 100
    assert tables["train"].column_names == ["text", "labels", "idx"]


def test_source_json_records_the_split(download, project):
    download({"all.csv": CSV}, {**ALL, "split": {**SPLIT, "by": "customer"}}, seed=5)
    source = json.loads((project / "data/raw/source.json").read_text())
    assert source["split"] == {
        **SPLIT,
        "by": "customer",
        "by_time": None,
        "stratify": True,
        "seed": 5,
    }
    assert [source["splits"][split]["from"] for split in ("train", "validation", "test")] == ["all"] * 3


def test_added_rows_leave_the_others_in_their_splits(download):
    stable = {**ALL, "split": {**SPLIT, "stratify": False}}
    before = download({"all.csv": CSV}, stable)
    more = CSV + "".join(f"another {row},ham,x\n" for row in range(100))
    after = download({"all.csv": more}, stable)
    for split, table in before.items():
        assert [row for row in after[split]["idx"].to_pylist() if row < 400] == table["idx"].to_pylist()


def test_group_column_that_is_missing_is_named(download):
    with pytest.raises(StageError, match=r"'custmer'(.|\n)*'customer'"):
        download({"all.csv": CSV}, {**ALL, "split": {**SPLIT, "by": "custmer"}})


@pytest.mark.parametrize("customers", [["7", " "], [7.0, None]])
def test_groups_are_equal_however_they_are_typed(customers, download):
    rows = [{**row, "customer": customers[index % 2]} for index, row in enumerate(ROWS)]
    tables = download({"all.parquet": parquet(rows)}, {**ALL, "split": {**SPLIT, "by": "customer"}})
    together = [set(table["idx"].to_pylist()) & set(range(0, 400, 2)) for table in tables.values()]
    assert sorted(map(len, together)) == [0, 0, 200]


def test_rows_are_divided_by_time(download):
    lines = [
        f"text {row},{('ham', 'spam')[row % 2]},2024-{row % 12 + 1:02}-{row % 28 + 1:02}"
        for row in range(400)
    ]
    content = "text,label,created\n" + "\n".join(lines) + "\n"
    tables = download({"all.csv": content}, {**ALL, "split": {**SPLIT, "by_time": "created"}})
    months = {
        split: {int(text.split()[1]) % 12 + 1 for text in table["text"].to_pylist()}
        for split, table in tables.items()
    }
    assert max(months["train"]) <= min(months["validation"]) <= max(months["validation"])
    assert max(months["validation"]) <= min(months["test"])
    assert sum(len(table) for table in tables.values()) == 400


def test_row_without_a_time_is_an_error_with_its_line(download):
    content = "text,label,created\n" + "".join(
        f"text {row},{('ham', 'spam')[row % 2]},{'' if row == 7 else f'2024-01-{row % 28 + 1:02}'}\n"
        for row in range(100)
    )
    with pytest.raises(DataError, match=r"all\.csv, line 9, column 'created'"):
        download({"all.csv": content}, {**ALL, "split": {**SPLIT, "by_time": "created"}})


def test_groups_are_numbers_beside_the_raw_splits(download, project):
    tables = download({"all.csv": CSV}, {**ALL, "split": {**SPLIT, "by": "customer"}})
    for split, table in tables.items():
        groups = pq.read_table(project / "reports/download/groups" / f"{split}.parquet")
        assert groups.schema.types == [pa.int32()]
        rows = dict(zip(table["idx"].to_pylist(), groups["group"].to_pylist(), strict=True))
        number_of: dict[int, int] = {}
        for row, group in rows.items():
            assert number_of.setdefault(row // 4, group) == group
        assert sorted(number_of.values()) == list(range(len(customers(table))))
