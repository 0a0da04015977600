"""Files as people have them: for each way to write a label, a file of it is drawn with a seed.

Each kind says which readings are right. What ``tuneline init`` may also do is to doubt: that is, to ask or to
refuse with the column's name. What it must not do is to train something else without a word.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

NAMES = ("billing", "delivery", "access", "returns", "praise", "damage", "refund", "warranty")
WORDS = (
    "please order again still week parcel courier never with my the was since today label invoice card"
    " payment login reset password late broken size exchange return charged tracking address door team answer"
    " thanks phone call waiting month shop item colour wrong missing box open email number account help soon"
).split()
Columns = dict[str, list[str]]


@dataclass(frozen=True)
class Expected:
    """What is right.

    Attributes:
        label: The label columns.
        task: The task.
        layout: The layout of several labels; ``None`` for one.
        separator: Of a layout with one.
        doubt_only: It cannot be read: only a doubt or a refusal is right.
        number: A value of a number as text, and what it means.
    """

    label: tuple[str, ...] = ("y",)
    task: str = "multilabel"
    layout: str | None = None
    separator: str | None = None
    doubt_only: bool = False
    number: tuple[str, float] | None = None


@dataclass(frozen=True)
class Kind:
    """A way to write a label.

    Attributes:
        draw: Makes the columns of a file from a generator and a number of rows.
        dirt: What a mistaken cell of the label has.
    """

    draw: Callable[[random.Random, int], Columns]
    expected: Expected
    dirt: str = "??!"


def texts(generator: random.Random, rows: int, words: tuple[int, int] = (6, 18)) -> list[str]:
    """Return texts of several words, all different."""
    result = []
    for number in range(rows):
        chosen = generator.choices(WORDS, k=generator.randint(*words))
        result.append(" ".join(chosen) + f" {number}")
    return result


def sets(generator: random.Random, rows: int, names: Sequence[str] = NAMES, most: int = 4) -> list[list[str]]:
    """Return sets of labels, some labels far more frequent than others."""
    weights = [1 / (position + 1) for position in range(len(names))]
    result = []
    for _ in range(rows):
        count = generator.choice([1, 1, 2, 2, 3, most])
        chosen = sorted(set(generator.choices(names, weights, k=count)))
        generator.shuffle(chosen)
        result.append(chosen)
    return result


def separated(separator: str, names: Sequence[str] = NAMES, ends: tuple[str, str] = ("", "")) -> Kind:
    """Return the kind with a separator between the names."""

    def draw(generator: random.Random, rows: int) -> Columns:
        cells = [ends[0] + separator.join(labels) + ends[1] for labels in sets(generator, rows, names)]
        return {"text": texts(generator, rows), "y": cells}

    return Kind(draw, Expected(layout="separated", separator=separator.strip(" ") or separator))


def written(form: Callable[[list[str]], str], layout: str, names: Sequence[str] = NAMES) -> Kind:
    """Return the kind with sets in another form."""

    def draw(generator: random.Random, rows: int) -> Columns:
        return {
            "text": texts(generator, rows),
            "y": [form(labels) for labels in sets(generator, rows, names)],
        }

    return Kind(draw, Expected(layout=layout))


def vector(form: Callable[[list[str]], str]) -> Kind:
    """Return the kind with a 0 or 1 for each label."""

    def bits(labels: list[str]) -> str:
        return form(["1" if name in labels else "0" for name in NAMES])

    return written(bits, "vectors")


def numbers(form: Callable[[random.Random], str], sure: tuple[str, float] | None, **expected: object) -> Kind:
    """Return the kind with a number to predict."""

    def draw(generator: random.Random, rows: int) -> Columns:
        return {"text": texts(generator, rows), "y": [form(generator) for _ in range(rows)]}

    return Kind(draw, Expected(task="regression", number=sure, **expected), dirt="unknown")  # type: ignore[arg-type]


def indicators(words: tuple[str, str], before: Mapping[str, tuple[str, ...]], missing: float = 0.0) -> Kind:
    """Return the kind with a column for each label, beside other columns of two values."""
    names = NAMES[:4]

    def draw(generator: random.Random, rows: int) -> Columns:
        columns: Columns = {"text": texts(generator, rows)}
        for name, values in before.items():
            columns[name] = generator.choices(values, k=rows)
        labels = sets(generator, rows, names)
        absent = [generator.random() < missing for _ in range(rows)]
        for name in names:
            cells = []
            for row in range(rows):
                cells.append("-1" if absent[row] else words[name in labels[row]])
            columns[name] = cells
        return columns

    return Kind(draw, Expected(label=names, layout="columns"), dirt="2")


def classes(values: Sequence[str], name: str = "y", *, doubt_only: bool = False) -> Kind:
    """Return the kind with one class per row."""

    def draw(generator: random.Random, rows: int) -> Columns:
        return {"text": texts(generator, rows), name: generator.choices(values, k=rows)}

    return Kind(draw, Expected(label=(name,), task="classification", doubt_only=doubt_only))


def tuples(form: str, most: int = 20) -> Kind:
    """Return the kind with several numbers in each cell, each of which has its place."""

    def draw(generator: random.Random, rows: int) -> Columns:
        cells = []
        for _ in range(rows):
            cells.append(form.format(*(generator.randrange(1, most) for _ in range(3))))
        return {"text": texts(generator, rows), "y": cells}

    return Kind(draw, Expected(doubt_only=True))


def _tokens(generator: random.Random, rows: int) -> Columns:
    """A word per row, with its tag, and the number of the sentence at its first word."""
    numbers = [f"Sentence: {row}" if row % 9 == 0 else "" for row in range(rows)]
    tags = generator.choices(("O", "B-geo", "I-geo"), (8, 1, 1), k=rows)
    return {"sentence": numbers, "word": generator.choices(WORDS, k=rows), "y": tags}


def _marked(words: Sequence[str]) -> Kind:
    """Labels with a column that says which of them stand: those with the first word."""

    def columns(generator: random.Random, rows: int) -> Columns:
        columns: Columns = {"text": texts(generator, rows), "label": generator.choices(NAMES[:4], k=rows)}
        columns["answer"] = generator.choices(words, (8, 2, 1), k=rows)
        return columns

    return Kind(columns, Expected(label=("label",), doubt_only=True), dirt="access")


def _sparse(generator: random.Random, rows: int) -> Columns:
    columns = {"text": texts(generator, rows), "category": generator.choices(NAMES[:5], k=rows)}
    columns["license"] = [generator.choice("ab") if generator.random() < 0.06 else "" for _ in range(rows)]
    return columns


def _only_sparse(generator: random.Random, rows: int) -> Columns:
    columns = _sparse(generator, rows)
    del columns["category"]
    return columns


def _numbered_labels(generator: random.Random, rows: int) -> Columns:
    columns: Columns = {"text": texts(generator, rows), "label_1": [], "label_2": [], "label_3": []}
    for labels in sets(generator, rows, NAMES, 3):
        for position in range(3):
            name = labels[position] if position < len(labels) else ""
            columns[f"label_{position + 1}"].append(name)
    return columns


def votes(names: Sequence[str], classes: Sequence[str], gaps: float = 0.0) -> Kind:
    """Return the kind with a column for each person, who mostly agree, some of whom did not label a text."""

    def draw(generator: random.Random, rows: int) -> Columns:
        columns: Columns = {"text": texts(generator, rows)}
        right = generator.choices(classes, k=rows)
        for name in names:
            cells = []
            for label in right:
                cell = generator.choice(classes) if generator.random() < 0.3 else label
                cells.append("" if generator.random() < gaps else cell)
            columns[name] = cells
        return columns

    return Kind(draw, Expected(label=tuple(names), doubt_only=True))


def _rows_of_people(generator: random.Random, rows: int) -> Columns:
    """A row for each of three people who labelled a text."""
    columns: Columns = {"text": [], "annotator": [], "mood": []}
    for number, text in enumerate(texts(generator, rows // 3)):
        for person in generator.sample(("ann", "bob", "cy", "dee"), 3):
            columns["text"].append(text)
            columns["annotator"].append(person)
            mood = generator.choice(NAMES[:3]) if generator.random() < 0.3 else NAMES[number % 3]
            columns["mood"].append(mood)
    return columns


def _with_filler(generator: random.Random, rows: int) -> Columns:
    """Labels in numbered columns, with a word where there is none."""
    columns = _numbered_labels(generator, rows)
    for name in ("label_1", "label_2", "label_3"):
        columns[name] = [cell or "NONE" for cell in columns[name]]
    return columns


def _one_hot(generator: random.Random, rows: int) -> Columns:
    """A column of 0 and 1 for each class, and one 1 in each row."""
    columns: Columns = {"text": texts(generator, rows)}
    classes = generator.choices(NAMES[:4], k=rows)
    for name in NAMES[:4]:
        columns[name] = [str(int(label == name)) for label in classes]
    return columns


def _objects_beside_names(generator: random.Random, rows: int) -> Columns:
    """The name where a row has one label, and a JSON object where it has several."""
    cells = []
    for labels in sets(generator, rows):
        joined = ", ".join(f'"{name}"' for name in labels)
        cells.append(labels[0] if len(labels) == 1 else f'{{"choices": [{joined}]}}')
    return {"text": texts(generator, rows), "sentiment": cells}


def _votes_in_a_cell(form: Callable[[list[str]], str], classes: Sequence[str]) -> Kind:
    """Return the kind with the labels of three to five people in each cell."""

    def draw(generator: random.Random, rows: int) -> Columns:
        cells = []
        for _ in range(rows):
            right = generator.choice(classes)
            people = [right] * generator.randint(2, 3) + generator.choices(classes, k=generator.randint(1, 2))
            generator.shuffle(people)
            cells.append(form(people))
        return {"text": texts(generator, rows), "y": cells}

    return Kind(draw, Expected(doubt_only=True))


def _papers(generator: random.Random, rows: int) -> Columns:
    columns = separated(" ", ("cs.LG", "cs.CL", "stat.ML", "math.ST", "cs.CV", "eess.SP")).draw(
        generator, rows
    )
    columns["paper_id"] = [
        f"{generator.randint(1000, 2500)}.{generator.randint(10000, 99999)}" for _ in range(rows)
    ]
    return columns


TROVE = (
    "Audience :: Developers",
    "License :: OSI Approved",
    "Language :: Python",
    "Language :: Python :: 3",
    "Language :: Rust",
    "Topic :: Text Processing",
)


def _trove(generator: random.Random, rows: int) -> Columns:
    """Sorted sets, whose first name is always one of two."""
    cells = []
    for labels in sets(generator, rows, TROVE):
        status = generator.choice(("Status :: 3 - Alpha", "Status :: 5 - Stable"))
        cells.append("\n".join(sorted({*labels, status}, key=lambda name: (name != status, name))))
    return {"text": texts(generator, rows), "y": cells}


def _one_long(generator: random.Random, rows: int) -> Columns:
    columns = separated("; ").draw(generator, rows)
    columns["y"][rows // 2] = " ".join(WORDS[:25])
    columns["paper_id"] = [str(generator.randint(10**6, 10**7)) for _ in range(rows)]
    return columns


def _pairs_of_ids(generator: random.Random, rows: int) -> Columns:
    cells = []
    for _ in range(rows):
        ids = sorted(set(generator.choices(range(28), k=generator.choice([1, 1, 1, 2]))))
        cells.append(",".join(map(str, ids)))
    return {
        "text": texts(generator, rows),
        "y": cells,
        "id": [f"e{generator.getrandbits(40):x}" for _ in range(rows)],
    }


def _objects(generator: random.Random, rows: int) -> Columns:
    cells = []
    for labels in sets(generator, rows):
        objects = ", ".join(f'{{"id": {NAMES.index(name)}, "name": "{name}"}}' for name in labels)
        cells.append(f"[{objects}]")
    return {"text": texts(generator, rows), "y": cells}


def _choices(generator: random.Random, rows: int) -> Columns:
    cells = [f'{{"choices": ["{generator.choice(NAMES)}"]}}' for _ in range(rows)]
    return {"text": texts(generator, rows), "y": cells}


def _headlines(generator: random.Random, rows: int) -> Columns:
    columns: Columns = {"date": [f"2016-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(rows)]}
    columns["label"] = generator.choices("01", k=rows)
    for number in range(1, 9):
        columns[f"top{number}"] = texts(generator, rows)
    return columns


def _two_columns(generator: random.Random, rows: int) -> Columns:
    return {
        "text": texts(generator, rows),
        "channel": generator.choices(("mail", "phone", "web"), k=rows),
        "priority": generator.choices(("low", "high", "urgent"), k=rows),
    }


def _beside_properties(generator: random.Random, rows: int) -> Columns:
    columns: Columns = {"text": texts(generator, rows), "dept": generator.choices(NAMES[:4], k=rows)}
    for name in ("has_image", "has_link", "verified"):
        columns[name] = generator.choices("01", k=rows)
    return columns


def _money(generator: random.Random) -> str:
    value = generator.choice([generator.randint(1, 999), generator.randint(1000, 90000)])
    return f"{value:,}"


def _missing(word: str) -> Callable[[random.Random], str]:
    def draw(generator: random.Random) -> str:
        return word if generator.random() < 0.05 else f"{generator.randint(4, 40) / 4:.2f}"

    return draw


KINDS: Mapping[str, Kind] = {
    "semicolons": separated(";"),
    "commas and spaces": separated(", "),
    "bars at the ends": separated("|", ends=("|", "|")),
    "hashes": separated("#"),
    "slashes": separated("/"),
    "ampersands": separated(" & "),
    "three colons": separated(" ::: "),
    "newlines": separated("\n"),
    "brackets of each": separated("><", ends=("<", ">")),
    "plus signs": separated("+"),
    "categories of papers": Kind(_papers, Expected(layout="separated", separator=" ")),
    "sorted names of several words": Kind(_trove, Expected(layout="separated", separator="\n")),
    "a cell that is too long": Kind(_one_long, Expected(layout="separated", separator=";")),
    "ids, at most two": Kind(_pairs_of_ids, Expected(layout="separated", separator=",")),
    "JSON lists": written(lambda names: "[" + ", ".join(f'"{name}"' for name in names) + "]", "lists"),
    "Python lists": written(str, "lists"),
    "NumPy lists": written(lambda names: "[" + " ".join(map(repr, names)) + "]", "lists"),
    "tuples": written(lambda names: str(tuple(names)), "lists"),
    "digits": vector("".join),
    "list of digits": vector(lambda digits: "[" + ", ".join(digits) + "]"),
    "NumPy list of digits": vector(lambda digits: "[" + " ".join(digits) + "]"),
    "digits with spaces": vector(" ".join),
    "objects": Kind(_objects, Expected(doubt_only=True)),
    "choices": Kind(_choices, Expected(doubt_only=True)),
    "columns of 0 and 1": indicators(("0", "1"), {}),
    "columns of 0 and 1 behind others": indicators(
        ("0", "1"), {"lang": ("en", "de"), "unclear": ("True", "False")}
    ),
    "columns of x": indicators(("", "x"), {}),
    "columns of TRUE": indicators(("FALSE", "TRUE"), {"lang": ("en", "de")}),
    "columns of yes": indicators(("no", "yes"), {}),
    "columns that are mostly -1": indicators(("0", "1"), {}, missing=0.6),
    "label_1 to label_3": Kind(
        _numbered_labels, Expected(label=("label_1", "label_2", "label_3"), layout="name_columns")
    ),
    "a column that is mostly empty": Kind(_sparse, Expected(label=("category",), task="classification")),
    "only a column that is mostly empty": Kind(_only_sparse, Expected(doubt_only=True)),
    "columns of annotators": votes(("annotator_1", "annotator_2", "annotator_3"), NAMES[:4]),
    "columns of raters": votes(("rater_a", "rater_b"), ("1", "2", "3", "4", "5")),
    "columns of annotators, 0 and 1": votes(("annotator_1", "annotator_2", "annotator_3"), ("0", "1")),
    "label_1 to label_3 of people": votes(("label_1", "label_2", "label_3"), NAMES[:4], gaps=0.3),
    "a row for each annotator": Kind(_rows_of_people, Expected(label=("mood",), task="classification")),
    "votes in lists": _votes_in_a_cell(str, NAMES[:4]),
    "votes with commas": _votes_in_a_cell(",".join, ("0", "1")),
    "votes with semicolons": _votes_in_a_cell("; ".join, NAMES[:4]),
    "label_1 to label_3 with a word for none": Kind(
        _with_filler, Expected(label=("label_1", "label_2", "label_3"), layout="name_columns")
    ),
    "columns with one 1 in each row": Kind(_one_hot, Expected(label=NAMES[:4], layout="columns"), dirt="2"),
    "objects beside names": Kind(_objects_beside_names, Expected(label=("sentiment",), doubt_only=True)),
    "classes beside columns of 0 and 1": Kind(
        _beside_properties, Expected(label=("dept",), task="classification"), dirt="access"
    ),
    "two columns of classes": Kind(_two_columns, Expected(doubt_only=True)),
    "headlines": Kind(_headlines, Expected(label=("label",), task="classification", doubt_only=True)),
    "five classes": classes(NAMES[:5]),
    "classes with commas": classes(("Books, used", "Books, new", "Tools", "Oslo, Norway", "Arts & crafts")),
    "classes with slashes": classes(("TCP/IP", "I/O", "24/7", "audio")),
    "classes of two words": classes(("late delivery", "wrong item", "lost parcel", "bad service")),
    "numbers of classes": classes(("0", "1", "2")),
    "many numbers of categories": classes([str(number) for number in range(3, 90, 3)], "category"),
    "codes": classes([f"{number:03d}" for number in range(1, 300, 15)], "code"),
    "codes with decimals": classes(("250.00", "250.0", "401.9", "427.31", "428.0"), doubt_only=True),
    "sections": classes(("1.1", "1.2", "1.10", "2.1", "2.2", "3"), doubt_only=True),
    "versions of three numbers": classes(("2.0.1", "2.0.0", "1.9.12", "1.10.0")),
    "missing as a database writes it": classes((*NAMES[:4], "\\N")),
    "missing as a dash": classes((*NAMES[:4], "-")),
    "missing as SQL writes it": classes((*NAMES[:4], "(null)", "NULL")),
    "none among classes": classes((*NAMES[:4], "none"), doubt_only=True),
    "NA among classes": classes((*NAMES[:4], "NA"), doubt_only=True),
    "plus and minus": classes(("+", "-"), doubt_only=True),
    "lists of one class, some missing": classes(("['billing']", '["access"]', "[]", "['late parcel']")),
    "codes with two decimals": classes(("62.01", "47.91", "10.10", "56.30"), doubt_only=True),
    "durations": tuples("{}:{:02d}.{}"),
    "numbers with a sign between them": tuples("{}+{}"),
    "times of day": tuples("{}:{:02d}"),
    "scores": tuples("{};{}", 5),
    "three numbers": tuples("{}|{}|{}"),
    "lists of two numbers": tuples("[{}, {}]", 6),
    "tokens with tags": Kind(_tokens, Expected(doubt_only=True)),
    "answers of Prodigy": _marked(("accept", "reject", "ignore")),
    "responses of Argilla": _marked(("submitted", "discarded", "pending")),
    "versions": classes((">=3.8", ">=3.9", ">=3.9,!=3.9.1", ">3.6, <4.0", ">=3.10", "~=3.11", ">3.7,<4")),
    "numbers with two decimals": numbers(lambda generator: f"{generator.uniform(0, 5):.2f}", ("4.27", 4.27)),
    "decimal commas": numbers(
        lambda generator: f"{generator.uniform(0, 5):.2f}".replace(".", ","), ("4,27", 4.27), doubt_only=True
    ),
    "one decimal": numbers(
        lambda generator: f"{generator.uniform(0, 9):.1f}".replace(".", ","), ("4,2", 4.2), doubt_only=True
    ),
    "thousands": numbers(_money, ("1,234", 1234.0)),
    "thousands with points": numbers(
        lambda generator: _money(generator).replace(",", "."), ("1.234", 1234.0)
    ),
    "money": numbers(lambda generator: f"${generator.uniform(1, 9000):,.2f}", ("$1,234.00", 1234.0)),
    "percent": numbers(lambda generator: f"{generator.randint(0, 100)}%", ("45%", 45.0)),
    "minus signs": numbers(
        lambda generator: f"{generator.uniform(-3, 3):.2f}".replace("-", "\u2212"), ("\u22121.25", -1.25)
    ),
    "stars": numbers(lambda generator: f"{generator.randint(1, 5)} stars", ("3 stars", 3.0)),
    "NA among numbers": numbers(_missing("NA"), ("8.75", 8.75)),
    "nan among numbers": numbers(_missing("nan"), ("8.75", 8.75)),
    "a dash among numbers": numbers(_missing("-"), ("8.75", 8.75)),
}
"""The kinds by name."""


def drawn(kind: Kind, seed: int, rows: int, dirt: float) -> Columns:
    """Return a file: its columns in an order drawn at random, with a share of mistaken cells in the label."""
    generator = random.Random(seed)
    columns = kind.draw(generator, rows)
    label = [name for name in kind.expected.label if name in columns]
    for row in range(rows):
        if label and generator.random() < dirt:
            columns[generator.choice(label)][row] = kind.dirt
    names = list(columns)
    generator.shuffle(names)
    return {name: columns[name] for name in names}
