import json
import re
from html.parser import HTMLParser

import pytest

from tests.tuneline.checks.data import Data, good_data
from tuneline.checks.expectations import check_tables
from tuneline.checks.report import write_checks
from tuneline.checks.tables import derive_tables
from tuneline.core.params import Params
from tuneline.core.paths import SPLITS
from tuneline.core.stage.records import file_hash
from tuneline.model.tasks import Classification

MARKUP = "<script>alert('x')</script><img src=x onerror=alert(1)> & \u202egnp.exe"


class Page(HTMLParser):
    """Tags, links and text of a page as a browser parses it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("href", "src")]

    def handle_data(self, data):
        self.text += data


def data_with_markup() -> Data:
    """Return data with markup in a text, a column name and a label name, and one control character."""
    data = good_data()
    data.columns = ("one", "<u>two</u>")
    for table in data.raw.values():
        table["<u>two</u>"] = table.pop("two")
    values = data.params.model_dump(by_alias=True)
    values["data"]["text_columns"] = list(data.columns)
    data.params = Params.model_validate(values)
    data.labels = Classification(("no", "<s>yes</s>", "perhaps"))
    data.raw["train"]["one"][3] = f"{MARKUP} {data.raw['train']['one'][3]} \x07"
    return data


def report(data: Data, folder):
    results = check_tables(derive_tables(data.params, data.write(folder / "data"), None))
    (folder / "report").mkdir()
    write_checks(folder / "report", results)
    return folder / "report"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return report(data_with_markup(), tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def pages(folder) -> dict[str, Page]:
    return {
        path.relative_to(folder).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.html")
    }


def test_markup_in_texts_is_escaped(pages):
    assert "<script>alert('x')</script><img src=x onerror=alert(1)> &" in pages["index.html"].text
    for name, page in pages.items():
        assert not {"script", "img", "u", "s", "iframe"} & set(page.tags), name


def test_bidirectional_controls_in_texts_are_escaped(pages):
    assert "\\u202egnp.exe" in pages["index.html"].text
    assert not any("\u202e" in page.text for page in pages.values())


def test_every_link_leads_to_a_file_of_the_report(folder, pages):
    for name, page in pages.items():
        for link in page.links:
            assert (folder / name).parent.joinpath(link).is_file() or link.startswith(("#", "data:,")), (
                name,
                link,
            )


def test_pages_load_nothing_from_the_network(folder):
    for path in folder.rglob("*.html"):
        assert not re.search(
            r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//|@import|url\((?!#)", path.read_text(encoding="utf-8")
        ), path


def test_page_has_failed_checks_with_counts_and_hints(pages):
    text = " ".join(pages["index.html"].text.split())
    assert "The data can be used for training 1 warning" in text
    assert "control_characters, train 1 of 200 rows (0.5 %) Allowed: no row." in text
    assert "What to do:" in text


def test_same_data_gives_identical_bytes(folder, tmp_path):
    """The report must not depend on time, paths or random numbers, because DVC hashes it."""
    again = report(data_with_markup(), tmp_path)
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    for path in files:
        assert (folder / path).read_bytes() == (again / path).read_bytes(), path


def test_checks_json_is_strict_json(folder):
    def refuse(constant):
        raise AssertionError(constant)

    values = json.loads((folder / "checks.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert values["passed"]
    (failed,) = [check for check in values["checks"] if check["status"] != "passed"]
    assert (failed["check"], failed["split"], failed["failing"], failed["rows"]) == (
        "control_characters",
        "train",
        1,
        200,
    )
    assert failed["examples"][0]["number"] == 3
    assert failed["hint"]
    assert values["raw_sha256"] == {
        split: file_hash(folder.parent / f"data/raw/{split}.parquet") for split in SPLITS
    }
