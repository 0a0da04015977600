"""``data.split``: one split of the source becomes three, the same ones each time, and ``source.json`` records
how."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stages.download.made import GOOD, parquet
from tuneline.runtime.errors import DataError, StageError

SPLIT = {"validation": 0.1, "test": 0.1}
ROWS = [
    {"text": f"text number {row}", "label": "ham" if row % 3 else "spam", "customer": row // 4}
    for row in range(400)
]
CSV = "text,label,customer\n" + "".join(f"{row['text']},{row['label']},{row['customer']}\n" for row in ROWS)
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS)
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


@pytest.mark.parametrize("name", ["all.csv", "all.jsonl", "all.parquet"])
def test_format_of_the_file_does_not_change_the_splits(name, download):
    by = {**ALL, "split": {**SPLIT, "by": "customer"}}
    content = {"all.csv": CSV, "all.jsonl": JSONL, "all.parquet": parquet(ROWS)}[name]
    expected = download({"all.csv": CSV, "other.csv": None}, by)
    (tables,) = [download({name: content}, {**by, "path": "other"})]
    assert {split: table["idx"].to_pylist() for split, table in tables.items()} == {
        split: table["idx"].to_pylist() for split, table in expected.items()
    }


def test_rows_of_a_customer_are_together_and_the_column_is_not_written(download):
    tables = download({"all.csv": CSV}, {**ALL, "split": {**SPLIT, "by": "customer"}})
    assert sum(len(customers(table)) for table in tables.values()) == 100
    assert tables["train"].column_names == ["text", "labels", "idx"]


@pytest.mark.parametrize("by", ["text", "label"])
def test_rows_can_be_grouped_by_a_text_or_the_label(by, download):
    files = {"all.csv": CSV.replace("spam", "eggs"), "all2.csv": None}
    split = {"validation": 0.1, "test": 0.1, "by": by}
    if by == "text":
        assert min(sizes(download(files, {**ALL, "split": split})).values()) > 30
    else:  # two groups, one of which trains: no split can have every class
        with pytest.raises(StageError):
            download(files, {**ALL, "split": split})


def test_source_json_records_the_split_and_rows_without_a_group(download, project):
    download({"all.csv": CSV.replace(",7\n", ",\n")}, {**ALL, "split": {**SPLIT, "by": "customer"}}, seed=5)
    source = json.loads((project / "data/raw/source.json").read_text())
    assert source["split"] == {
        **SPLIT,
        "by": "customer",
        "by_time": None,
        "stratify": True,
        "seed": 5,
        "rows_without_group": 4,
    }
    assert [source["splits"][split]["from"] for split in ("train", "validation", "test")] == ["all"] * 3


def test_source_json_says_nothing_of_a_split_that_was_not_asked_for(download, project):
    download()
    assert "split" not in json.loads((project / "data/raw/source.json").read_text())


def test_added_rows_leave_the_others_in_their_splits(download):
    stable = {**ALL, "split": {**SPLIT, "stratify": False}}
    before = download({"all.csv": CSV}, stable)
    more = CSV + "".join(f"another {row},ham,x\n" for row in range(100))
    after = download({"all.csv": more}, stable)
    for split, table in before.items():
        assert [row for row in after[split]["idx"].to_pylist() if row < 400] == table["idx"].to_pylist()


def test_fraction_of_zero_reads_the_split_from_its_own_file(download):
    tables = download(
        {"train.csv": CSV, "test.csv": GOOD["test.csv"]}, {"split": {"validation": 0.2, "test": 0}}
    )
    assert sizes(tables) == pytest.approx({"train": 320, "validation": 80, "test": 2}, abs=2)
    assert tables["test"]["text"].to_pylist() == ["win", "no lunch"]


def test_slice_is_divided(download):
    tables = download(
        {"all.csv": CSV},
        {"splits": {"train": "all[:50%]", "test": "all[50%:]"}, "split": {"validation": 0.1, "test": 0}},
    )
    assert sizes(tables) == pytest.approx({"train": 180, "validation": 20, "test": 200}, abs=2)
    assert max(tables["validation"]["idx"].to_pylist()) < 200


def test_slice_that_overlaps_the_divided_rows_is_refused(download):
    splits = {"train": "all", "test": "all[50%:]"}
    with pytest.raises(StageError, match="both train and test"):
        download({"all.csv": CSV}, {"splits": splits, "split": {"validation": 0.1, "test": 0}})


def test_regression_is_divided_by_the_number_of_rows(download):
    rows = "text,label\n" + "".join(f"text {row},{row / 7}\n" for row in range(200))
    tables = download({"all.csv": rows}, {**ALL, "task": "regression"})
    assert sizes(tables) == pytest.approx({"train": 160, "validation": 20, "test": 20}, abs=1)


def test_unlabelled_rows_are_left_out_of_every_split(download, project):
    rows = CSV.replace("ham,1\n", ",1\n").replace("ham,30\n", ",30\n")
    tables = download({"all.csv": rows}, {**ALL, "max_bad_share": 1.0})
    left_out = [
        split["left_out"]
        for split in json.loads((project / "data/raw/source.json").read_text())["splits"].values()
    ]
    assert sum(left_out) == 400 - sum(sizes(tables).values()) > 0


def test_json_row_without_the_key_of_its_label_is_left_out_on_demand(download):
    rows = JSONL + '{"text": "no label here"}\n'
    tables = download({"all.jsonl": rows}, {**ALL, "max_bad_share": 1.0})
    assert sum(sizes(tables).values()) == 400
    with pytest.raises(StageError, match=r"line 401, .*'label'"):
        download({"all.jsonl": rows}, ALL)


def test_key_that_no_json_row_has_is_refused_where_rows_may_be_incomplete(download):
    with pytest.raises(StageError, match=r"'labl'\.\n  The nearest is 'label'"):
        download({"all.jsonl": JSONL}, {**ALL, "max_bad_share": 1.0, "label_column": "labl"})


@pytest.mark.parametrize("name", ["all.csv", "all.jsonl", "all.parquet"])
def test_group_column_that_is_missing_is_named(name, download):
    content = {"all.csv": CSV, "all.jsonl": JSONL, "all.parquet": parquet(ROWS)}[name]
    with pytest.raises(StageError, match=r"'custmer'(.|\n)*'customer'"):
        download({name: content}, {**ALL, "split": {**SPLIT, "by": "custmer"}})


def test_list_is_refused_as_a_group(download):
    rows = [{**row, "customer": [row["customer"]]} for row in ROWS]
    by = {**ALL, "split": {**SPLIT, "by": "customer"}}
    with pytest.raises(StageError, match=r"all\.parquet, row 1, .*'customer'"):
        download({"all.parquet": parquet(rows)}, by)
    with pytest.raises(StageError, match=r"line 1, .*'customer'"):
        download(
            {"all.parquet": None, "all.jsonl": "".join(json.dumps(row) + "\n" for row in rows)},
            {**by, "path": "other"},
        )


@pytest.mark.parametrize("customers", [[7.0, None], ["7", " "], [7, None]])
def test_groups_are_equal_however_they_are_typed(customers, download):
    rows = [{**row, "customer": customers[index % 2]} for index, row in enumerate(ROWS)]
    tables = download({"all.parquet": parquet(rows)}, {**ALL, "split": {**SPLIT, "by": "customer"}})
    together = [set(table["idx"].to_pylist()) & set(range(0, 400, 2)) for table in tables.values()]
    assert sorted(map(len, together)) == [0, 0, 200]


def test_quick_run_draws_from_the_divided_rows(download):
    whole = download({"all.csv": CSV}, ALL)
    quick = download({"all.csv": CSV}, {**ALL, "max_rows": 20})
    for split, table in quick.items():
        assert table.num_rows == 20
        assert set(table["idx"].to_pylist()) <= set(whole[split]["idx"].to_pylist())


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


def test_groups_do_not_change_the_raw_splits(download, project):
    customers_alone = {"splits": {"train": "all"}, "split": {**SPLIT, "by": "text"}}
    download({"all.csv": CSV}, customers_alone)
    grouped = {path.name: path.read_bytes() for path in (project / "data/raw").glob("*.parquet")}
    download({"all.csv": CSV}, ALL)
    assert grouped == {path.name: path.read_bytes() for path in (project / "data/raw").glob("*.parquet")}
    assert [path.name for path in (project / "reports/download/groups").iterdir()] == ["README.md"]


def test_rows_that_are_not_drawn_have_no_group(download, project):
    data = {**ALL, "split": {**SPLIT, "by": "customer"}, "max_rows": 20}
    tables = download({"all.csv": CSV}, data)
    groups = pq.read_table(project / "reports/download/groups/train.parquet")
    assert groups.num_rows == tables["train"].num_rows == 20
