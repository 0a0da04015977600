"""Several labels per text in the layouts that people have, each with its look-alike that has one label."""

import csv
import random
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.download import main
from tests.tuneline.operations.adoption.conftest import planned
from tests.tuneline.operations.adoption.test_planning import init
from tuneline.core.params.loading import load_params
from tuneline.core.runtime.errors import DataError
from tuneline.model.tasks.columns import read_task
from tuneline.rows.proposals.readings import OpenQuestionError

TAGS = ["billing", "delivery", "quality", "refund"]
WORDS = "the parcel came late and the box was broken so we sent it back to you".split()


def sets_of(rows=60, names=TAGS, least=0):
    """Random sets of names, some of them empty; the first rows are sorted by size, as exports are."""
    generator = random.Random(0)
    sets = [[name for name in names if generator.random() < 0.4] for _ in range(rows)]
    return sorted((labels for labels in sets if len(labels) >= least), key=len)


def texts_of(rows):
    generator = random.Random(1)
    return [f"{' '.join(generator.choices(WORDS, k=8))} {row}" for row in range(rows)]


def write_csv(folder, header, columns, texts=None):
    """Write columns of cells beside a column of texts."""
    texts = texts or texts_of(len(columns[0]))
    with (folder / "in.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", *header])
        for number, row in enumerate(zip(texts, *columns, strict=True)):
            writer.writerow([number * 7, *row])
    return folder / "in.csv"


def write_parquet(folder, header, columns):
    texts = texts_of(len(columns[0]))
    pq.write_table(
        pa.table(dict(zip(["text", *header], [texts, *columns], strict=True))), folder / "in.parquet"
    )
    return folder / "in.parquet"


def joined(separator, **options):
    return [separator.join(labels) for labels in sets_of(**options)]


def ones(yes=1, no=0, names=TAGS):
    return [[yes if name in labels else no for labels in sets_of(names=names)] for name in names]


def cycle(*values, rows=60):
    return [values[row % len(values)] for row in range(rows)]


def rows_of_labels():
    """A row for each label of a text; a row with an empty cell for a text without any."""
    pairs = []
    for text, labels in zip(texts_of(60), sets_of(), strict=True):
        pairs += [(text, label) for label in labels or [""]]
    random.Random(2).shuffle(pairs)
    return [text for text, _ in pairs], [label for _, label in pairs]


def semicolons(folder):
    return write_csv(folder, ["tags"], [joined(";")])


def lists_of_parquet(folder):
    return write_parquet(folder, ["tags"], [sets_of()])


def columns_among_others(folder):
    """Columns of labels beside others that cannot be one."""
    header = ["billing", "created", "delivery", "url", "quality", "refund"]
    billing, delivery, quality, refund = ones()
    created = cycle("2024-05-01", "2024-05-02")
    return write_csv(folder, header, [billing, created, delivery, cycle("/a", "/b"), quality, refund])


def one_row_per_label(folder):
    texts, labels = rows_of_labels()
    return write_csv(folder, ["tag"], [labels], texts)


SEPARATED = {"layout": "separated"}
COLUMNS = {"layout": "columns", "columns": TAGS}
LAYOUTS = [
    (semicolons, "tags", {**SEPARATED, "separator": ";"}),
    (lists_of_parquet, "tags", {"layout": "lists"}),
    (columns_among_others, "labels", COLUMNS),
]


def paths_with_bars(folder):
    """Levels of a hierarchy: the second is never the first."""
    return write_csv(
        folder, ["label"], [cycle("goods|books", "goods|music", "services|repair", "services|advice")]
    )


def names_in_brackets(folder):
    return write_csv(folder, ["label"], [cycle("[draft", "final", "sent")])


def dates(folder):
    days = [f"Jan {1 + row % 28}, {2020 + row % 4}" for row in range(60)]
    return write_csv(folder, ["date", "label"], [days, cycle("a", "b", "c")])


def one_column_of_numbers(folder):
    return write_csv(folder, ["label", "verified", "stars"], [cycle(1, 0), cycle(0, 0, 1), cycle(5, 4, 1)])


def label_beside_properties(folder):
    """The name of a column says that it is the label, whatever other columns of 0 and 1 there are."""
    header = ["label", "has_image", "has_link", "verified"]
    return write_csv(folder, header, [cycle("x", "y", "z"), cycle(0, 1), cycle(1, 1, 0), cycle(0, 0, 1)])


def texts_that_contradict(folder):
    """Two of sixty texts are there twice, with another label."""
    texts = texts_of(58)
    return write_csv(folder, ["tag"], [cycle("a", "b", "c")], [*texts, texts[0], texts[1]])


LOOK_ALIKES = [
    paths_with_bars,
    names_in_brackets,
    dates,
    one_column_of_numbers,
    label_beside_properties,
    texts_that_contradict,
]


def decided(path, **choices):
    return planned(path, **choices).decision


@pytest.mark.parametrize(
    ("write", "label", "sets"), LAYOUTS, ids=lambda value: getattr(value, "__name__", None)
)
def test_layout_of_several_labels_is_recognised(project, write, label, sets):
    made = planned(write(project))
    decision = made.decision
    assert (decision.task, decision.label_column) == ("multilabel", label)
    assert decision.sets.model_dump(exclude_none=True) == sets
    assert decision.text_columns == ("text",)
    assert sum(made.rows.splits.values()) == 60


@pytest.mark.parametrize("write", LOOK_ALIKES, ids=lambda write: write.__name__)
def test_look_alike_has_one_label(project, write):
    decision = decided(write(project))
    assert (decision.task, decision.sets) == ("classification", None)


def names_with_and_without_commas(folder):
    """A name with a comma, whose parts are names, too."""
    return write_csv(folder, ["topic"], [cycle("Health", "Fitness", "Health, Fitness", "Sleep")])


def some_repeated_texts(folder):
    """Six of sixty texts are there twice, with another label."""
    texts = texts_of(54)
    return write_csv(folder, ["tag"], [cycle("a", "b", "c", "d", "e", "f", "g")], [*texts, *texts[:6]])


def spaces(folder):
    return write_csv(folder, ["topic"], [joined(" ")])


DOUBTS = [
    (spaces, "--separator ' '", {**SEPARATED, "separator": " "}),
    (names_with_and_without_commas, "--separator ','", {**SEPARATED, "separator": ","}),
]


@pytest.mark.parametrize(
    ("write", "option", "sets"), DOUBTS, ids=lambda value: getattr(value, "__name__", None)
)
def test_doubt_is_told_with_the_option_for_several_labels(project, write, option, sets):
    before = (project / "params.yaml").read_text()
    done = init(write(project), "--yes")
    assert done.exit_code == OpenQuestionError.status, done.output
    assert (project / "params.yaml").read_text() == before, "no guess was written"
    assert done.output.count("tuneline init ") >= 2
    commands = [line for line in done.output.splitlines() if shlex.join(shlex.split(option)) in line]
    assert len(commands) == 1

    done = init(project / "in.csv", *shlex.split(option), "--yes")
    assert done.exit_code == 0, done.output
    assert load_params().data.label_sets.model_dump(exclude_none=True) == sets


def test_one_label_per_row_can_be_asked_for(project):
    decision = decided(semicolons(project), task="classification")
    assert (decision.task, decision.sets) == ("classification", None)


@pytest.mark.parametrize("write", [one_row_per_label, some_repeated_texts])
def test_texts_in_several_rows_with_different_labels_are_asked_about(project, write):
    done = init(write(project), "--yes")
    assert done.exit_code == OpenQuestionError.status, done.output
    assert "with all in one cell: a; b" in done.output
    done = init(project / "in.csv", "--label", "tag", "--task", "classification", "--yes")
    assert done.exit_code == 0, done.output


def test_named_columns_of_labels_must_have_0_and_1(project):
    with pytest.raises(DataError, match="are no columns of 0 and 1"):
        decided(columns_among_others(project), label=("billing", "created"))


def test_parameters_are_those_that_download_reads(project):
    done = init(columns_among_others(project), "--yes")
    assert done.exit_code == 0, done.output
    data = load_params().data
    assert (data.task, data.label_column, data.label_sets.columns) == ("multilabel", "labels", TAGS)
    assert "a column of 0 and 1 each: 'billing', 'delivery'" in done.output
    main()
    assert read_task(pq.read_schema("data/raw/train.parquet")).names == tuple(TAGS)


def test_columns_of_ones_and_empty_cells_are_labels(project):
    decision = decided(write_csv(project, TAGS, ones(yes=1, no="")))
    assert decision.sets.columns == TAGS
