"""The faults: how each is planted, at which rates, and what kind of problem it is.

A planter changes the rows of a copy of the data and returns the planted rows; none for a fault of the whole
data set.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.faults import edits
from benchmarks.faults.edits import Edit, words_of
from benchmarks.faults.rows import LABEL, Data, Row
from tuneline.core.paths import SPLITS

Planted = set[tuple[str, int]]
"""Split and row number of each planted row."""
Planter = Callable[[Data, float, Random], Planted]
COMMON = (0.005, 0.02, 0.1)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: Its name.
        kind: The kind of problem; ``FINDS`` lists which findings count for it.
        plant: The planter.
        rates: Fractions of the rows of the changed split that are planted.
        data: ``mrpc`` or ``tickets``: MRPC cannot be learnt from single words, so faults of learnability need
            the tickets.
    """

    name: str
    kind: str
    plant: Planter
    rates: tuple[float, ...] = COMMON
    data: str = "mrpc"


def copies(edit: Edit, source: str, target: str, relabel: bool = False) -> Planter:
    """Replace rows of one split by edited copies of rows of another, or of earlier rows of the same one.

    Args:
        edit: The change of a copy.
        source: Split of the originals.
        target: Split of the copies.
        relabel: Give the copy another label; the original, which it contradicts, counts as planted, too.
    """

    def plant(data: Data, rate: float, generator: Random) -> Planted:
        vocabulary, rows = words_of(data), data[target]
        names = sorted({row.label for row in rows})
        start = len(rows) // 2 if source == target else 0
        chosen = generator.sample(range(start, len(rows)), _number(rate, len(rows)))
        originals = generator.sample(range(start or len(data[source])), len(chosen))
        for number, original in zip(chosen, originals, strict=True):
            copy = edit(data[source][original], generator, vocabulary)
            label = next(name for name in names if name != copy.label) if relabel else copy.label
            rows[number] = copy._replace(label=label)
        planted = {(target, number) for number in chosen}
        return planted | {(source, number) for number in originals} if relabel else planted

    return plant


def edited(edit: Edit, *splits: str, named: bool = True) -> Planter:
    """Edit random rows of some splits; ``named`` if a finding should name them, and not only the split."""

    def plant(data: Data, rate: float, generator: Random) -> Planted:
        vocabulary, planted = words_of(data), set()
        for split in splits:
            for number in generator.sample(range(len(data[split])), _number(rate, len(data[split]))):
                data[split][number] = edit(data[split][number], generator, vocabulary)
                planted.add((split, number))
        return planted if named else set()

    return plant


def renamed_class(change: Callable[[str], str]) -> Planter:
    """Write the class of random train rows in another way."""
    return edited(lambda row, _, __: row._replace(label=change(row.label)), "train")


def inserted(row: Row) -> Planter:
    """Insert one row in the middle of train, whatever the rate."""

    def plant(data: Data, _: float, generator: Random) -> Planted:
        number = generator.randrange(1, len(data["train"]))
        data["train"].insert(number, row)
        return {("train", number)}

    return plant


def wrong_labels(data: Data, rate: float, generator: Random) -> Planted:
    """Give random rows of train another label."""
    names = sorted({row.label for row in data["train"]})
    chosen = generator.sample(range(len(data["train"])), _number(rate, len(data["train"])))
    for number in chosen:
        row = data["train"][number]
        data["train"][number] = row._replace(
            label=generator.choice([name for name in names if name != row.label])
        )
    return {("train", number) for number in chosen}


def revealing(change: Callable[[str], str]) -> Planter:
    """Change the second text of a fraction of the rows of the first class, in every split."""

    def plant(data: Data, rate: float, generator: Random) -> Planted:
        revealed = min(row.label for row in data["train"])
        for rows in data.values():
            of_class = [number for number, row in enumerate(rows) if row.label == revealed]
            for number in generator.sample(of_class, _number(rate, len(of_class))):
                first, second = rows[number].texts
                rows[number] = rows[number]._replace(texts=(first, change(second)))
        return set()

    return plant


def thinned(*splits: str) -> Planter:
    """Leave out a fraction of the rows of the first class."""

    def plant(data: Data, rate: float, generator: Random) -> Planted:
        thin = min(row.label for row in data["train"])
        for split in splits:
            data[split] = [row for row in data[split] if row.label != thin or generator.random() >= rate]
        return set()

    return plant


def _number(rate: float, rows: int) -> int:
    return max(1, round(rate * rows))


_ONCE = (0.0,)
_BROKEN = (0.001, 0.005, 0.05)
_NAMES = (0.0003, 0.005, 0.05)
_NEAR = (0.02, 0.1)


def _in_a_template(text: str) -> str:
    return f"Form B of the service desk: {text}"


# fmt: off
FAULTS = (
    Fault("near_replaced_10", "near", copies(edits.replace_words(0.1), "train", "test"), _NEAR),
    Fault("near_replaced_20", "near", copies(edits.replace_words(0.2), "train", "test"), _NEAR),
    Fault("near_dropped", "near", copies(edits.drop_clause, "train", "test"), _NEAR),
    Fault("near_swapped", "near", copies(edits.swap_clauses, "train", "test"), _NEAR),
    Fault("near_renamed", "near", copies(edits.rename, "train", "test"), _NEAR),
    Fault("near_within", "near", copies(edits.replace_words(0.1), "train", "train"), _NEAR),
    Fault("duplicates", "duplicates", copies(edits.same, "train", "train")),
    Fault("leakage", "leakage", copies(edits.same, "train", "test")),
    Fault("conflicting_labels", "conflicts", copies(edits.same, "train", "train", relabel=True)),
    Fault("rare_class", "classes", renamed_class(lambda _: "unsure"), (0.0003, 0.001)),
    Fault("class_case", "classes", renamed_class(str.capitalize), _NAMES),
    Fault("class_dot", "classes", renamed_class(lambda name: f"{name}."), _NAMES),
    Fault("class_invisible", "classes", renamed_class(lambda name: f"{name}\u200b"), _NAMES),
    Fault("class_nan", "classes", renamed_class(lambda _: "nan"), _NAMES),
    Fault("class_long", "classes", renamed_class(lambda _: "x" * 100_000), (0.0003,)),
    Fault("header_row", "classes", inserted(Row(("#1 String", "#2 String"), "Quality")), _ONCE),
    Fault("bom_header", "classes", inserted(Row(("sentence1", "sentence2"), "\ufeff" + LABEL)), _ONCE),
    Fault("mojibake", "encoding", edited(edits.mojibake, *SPLITS), _BROKEN),
    Fault("cp1252_rows", "encoding", edited(edits.cp1252, "train"), _BROKEN),
    Fault("control_characters", "control", edited(edits.unreadable, *SPLITS), _BROKEN),
    Fault("blank_text", "blank", edited(edits.blank, "train"), _BROKEN),
    Fault("invisible_text", "blank", edited(edits.invisible, "train"), _BROKEN),
    Fault("merged_texts", "lengths", edited(edits.merged, "train"), (0.002, 0.02)),
    Fault("imbalance", "balance", thinned(*SPLITS), (0.9, 0.98)),
    Fault("label_drift", "label_drift", thinned("test"), (0.5, 0.9)),
    Fault("length_drift", "length_drift", edited(edits.shortened, "test", named=False), (0.2, 0.5)),
    Fault("language_drift", "words", edited(edits.other_language, "test", named=False), (0.1, 0.5)),
    Fault("revealing_word", "revealing", revealing(lambda text: f"{text} Ref4711"), (0.3, 1.0)),
    Fault("revealing_template", "revealing", revealing(_in_a_template), (0.3, 1.0), "tickets"),
    Fault("wrong_labels", "wrong_labels", wrong_labels, (0.03, 0.1), "tickets"),
)
# fmt: on
FINDS: dict[str, tuple[str, ...]] = {
    "near": ("near_duplicates", "leakage", "duplicates"),
    "duplicates": ("duplicates",),
    "leakage": ("leakage",),
    "conflicts": ("conflicting_labels",),
    "classes": ("rare_classes", "class_names", "absent_classes"),
    "encoding": ("broken_encoding",),
    "control": ("control_characters",),
    "blank": ("blank_text", "empty_rows"),
    "lengths": ("length_outliers",),
    "balance": ("class_balance",),
    "label_drift": ("label_drift",),
    "length_drift": ("length_drift",),
    "words": ("vocabulary_overlap",),
    "revealing": ("revealing_words",),
    "wrong_labels": ("labels review",),
}
"""Checks whose findings count, by kind of fault."""
