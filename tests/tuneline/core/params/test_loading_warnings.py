from tests.params import params
from tuneline.core.params.loading import warn_of_learning_rate

CHECKPOINT = {"checkpoint": "google-bert/bert-base-uncased", "config": None}


def test_learning_rate_from_scratch_with_a_checkpoint_is_a_warning(capsys):
    for train in ({"learning_rate": 5e-5}, {"lora": {}}):
        warn_of_learning_rate("train", params(model=CHECKPOINT, train=train))
    assert capsys.readouterr().out == ""
    warn_of_learning_rate("train", params(model=CHECKPOINT, train={"learning_rate": 7e-4}))
    assert capsys.readouterr().out.startswith(
        "train: WARNING: train.learning_rate: 0.0007 suits training from scratch"
    )
