import pytest

from tests.tuneline.made import Made
from tuneline.repo.history import CLASSIFIER, Lock, changed_by_machine, commit_of, read_lock, registered


def test_the_commit_is_the_one_that_brought_the_version_not_the_newest(made):
    first = made.git("rev-parse", "HEAD")
    (made.root / "README.md").write_text("later\n")
    made.commit("Write about it")
    found = commit_of(made.root, read_lock(made.root).out(CLASSIFIER))
    assert (found.sha, found.subject) == (first, "Run the line")


def test_a_version_that_is_not_committed_has_no_commit(made):
    made.lock(seed=2)
    assert commit_of(made.root, read_lock(made.root).out(CLASSIFIER)) is None


def names(made) -> list[str]:
    version = read_lock(made.root).out(CLASSIFIER)
    return registered(made.root, version, commit_of(made.root, version))


def test_a_models_names_are_those_of_its_own_version(made):
    made.git("tag", "onnx@v0.1.0")
    made.git("tag", "onnx#production#1")
    assert names(made) == ["onnx@v0.1.0", "onnx#production"]
    made.line(skill=3.0, seed=2).commit("Learn more")
    assert names(made) == []
    made.git("tag", "--annotate", "onnx@v0.2.0", "--message", "second")
    made.git("tag", "unrelated")
    assert names(made) == ["onnx@v0.2.0"]


def test_a_model_that_was_replaced_is_in_production_no_more_and_after_a_rollback_again(made):
    first = made.git("rev-parse", "HEAD")
    made.git("tag", "onnx#production#1")
    made.line(skill=3.0, seed=2).commit("Learn more")
    made.git("tag", "onnx#production#2")
    assert names(made) == ["onnx#production"]
    made.git("checkout", "--quiet", first)
    assert names(made) == []
    made.git("tag", "onnx#production#3")
    assert names(made) == ["onnx#production"]


@pytest.mark.parametrize("text", ["", "[]", "stages: null", "{ broken", "schema: '2.0'"])
def test_a_lock_that_says_nothing_has_nothing(text):
    lock = Lock(text)
    assert lock.out(CLASSIFIER) is None
    assert lock.params() == {}
    assert lock.code() == {}


def test_two_projects_with_one_history_share_nothing_else(tmp_path):
    """The builder itself: what these tests stand on must be a repository of its own."""
    made = Made(tmp_path).line()
    assert made.git("rev-parse", "--show-toplevel") == str(tmp_path)


LOCK = """\
stages:
  train:
    cmd: python -m stages.train
    deps:
    - {path: data/tokenized, md5: "1"}
    - {path: data/tokenized/passed, md5: "4"}
    - {path: stages/train, md5: "2"}
    params: {params.yaml: {seed: 42}}
    outs:
    - {path: models/classifier, md5: "3"}
  tokenize:
    cmd: python -m stages.tokenize
    outs:
    - {path: data/tokenized, md5: "1"}
"""


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ('"3"', '"30"', ["models/classifier"]),
        ('"1"', '"10"', ["data/tokenized"]),
        ('"4"', '"40"', []),
        ("seed", "seed", []),
    ],
)
def test_outs_that_differ_from_the_same_inputs_are_the_machines(old, new, changed):
    assert changed_by_machine(Lock(LOCK.replace(old, new)), Lock(LOCK)) == changed


@pytest.mark.parametrize(("old", "new"), [("seed: 42", "seed: 7"), ('"2"', '"20"'), ("stages.train\n", "stages.train --fast\n")])
def test_outs_that_differ_from_other_inputs_are_not_the_machines(old, new):
    assert changed_by_machine(Lock(LOCK.replace(old, new).replace('"3"', '"30"')), Lock(LOCK)) == []


def test_without_a_committed_lock_nothing_differs():
    assert changed_by_machine(Lock(LOCK), Lock("")) == []
