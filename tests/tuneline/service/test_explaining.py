"""Effects of words, measured by the workers: those that programs get, and no predictions wait for them."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from tests.exported_pipeline import published_pipeline
from tests.planted_words import planted
from tests.service import running_service
from tuneline import TextClassifier
from tuneline.model.encoding import InputEncoder
from tuneline.program.occlusion import MOST_REMOVALS, word_effects
from tuneline.service.answering import AnsweredRows
from tuneline.service.engine import Engine
from tuneline.service.errors import RequestError
from tuneline.service.explaining import EXPLAINED_AT_A_TIME, MOST_EXPLANATIONS, Explainer
from tuneline.service.limits import ServiceLimits

PAIR = ("the parcel", "is late again, my refund was fine")


def by_place(effects):
    return {(effect["column"], effect["start"], effect["end"], effect["word"]): effect for effect in effects}


def check_effects(answer, occlusion, atol=3e-6):
    """Compare with what programs get; words with nearly equal effects may be in another order."""
    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert content["words"] == occlusion.words
    got = by_place(content["effects"])
    assert len(got) == len(occlusion.effects)
    for effect in occlusion.effects:
        measured = got[effect.text_column, effect.start, effect.end, effect.word]
        assert measured["label"] == effect.label
        assert measured["effect"] == pytest.approx(effect.effect, abs=atol)
    sizes = [abs(effect["effect"]) for effect in content["effects"]]
    assert sizes == sorted(sizes, reverse=True)


def test_effects_are_those_that_programs_get(pairs, pair_folder):
    model = TextClassifier.load(pair_folder, threads=1)
    answer = pairs.post("/v1/why", {"row": PAIR})
    check_effects(answer, word_effects(model, PAIR))
    assert answer.json()["prediction"]["label"] == model.predict_one(PAIR).label
    assert answer.headers["tuneline-version"] == model.version


def test_effects_on_a_number_are_those_that_programs_get(tmp_path_factory):
    folder = published_pipeline(tmp_path_factory, "regression") / "models/onnx"
    with running_service(folder) as service:
        answer = service.post("/v1/why", {"row": PAIR})
    check_effects(answer, word_effects(TextClassifier.load(folder, threads=1), PAIR))


def test_row_of_many_words_is_measured_by_runs_first(text_folder, tmp_path):
    small = TextClassifier.load(text_folder, threads=1)
    model = planted(small, tmp_path, {"late": [2.0, 0.0, 0.0], "refund": [1.0, 0.0, 0.0]})
    encoder = InputEncoder(small.encoder.tokenizer, "", 2000, small.long_text, "right")
    model = replace(model, encoder=encoder)
    words = ["again"] * 1000
    words[700] = "late"
    words[33] = "refund"
    row = (" ".join(words),)
    with running_service(model) as service:
        answer = service.post("/v1/why", {"row": row})
    check_effects(answer, word_effects(model, row))
    assert [effect["word"] for effect in answer.json()["effects"]][:3] == ["late", "refund", "again"]
    assert len(answer.json()["effects"]) < MOST_REMOVALS < answer.json()["words"]


def test_rows_of_int8_are_alone_as_the_answer_is(pair_folder):
    model = TextClassifier.load(pair_folder, "int8", threads=1)
    assert model.depends_on_batch
    with running_service(pair_folder, "int8") as service:
        why = service.post("/v1/why", {"row": PAIR}).json()
    scores = model.outputs(model.encode([PAIR]), 1)[0]
    output = int(scores.argmax())
    for effect in why["effects"]:
        texts = list(PAIR)
        number = model.text_columns.index(effect["column"])
        text = texts[number]
        texts[number] = " ".join((text[: effect["start"]].split()) + text[effect["end"] :].split())
        alone = model.outputs(model.encode([tuple(texts)]), 1)[0]
        assert effect["effect"] == pytest.approx(alone[output] - scores[output], abs=2e-6)


@pytest.fixture
def idle():
    """An engine without workers: what is in its queue stays there."""
    return Engine(0, 10_000, lambda _rows, _seconds: None)


@pytest.fixture(scope="module")
def answered(pair_folder):
    model = TextClassifier.load(pair_folder, threads=1)
    encoded = model.encode([PAIR])
    logits = model.logits(encoded, 1)
    truncated = np.zeros(1, bool)
    return AnsweredRows(model, [PAIR], logits, model.predictions(model.task.scores(logits), truncated), 10)


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError


def test_few_rows_are_explained_at_a_time_and_nothing_is_left_of_those_that_nobody_waits_for(idle, answered):
    rows = 1 + word_effects(answered.model, PAIR).words
    explainer = Explainer(idle, ServiceLimits())

    async def explain_some():
        asked = [asyncio.ensure_future(explainer.explain(answered)) for _ in range(5)]
        await until(lambda: idle.queue.waiting_rows >= EXPLAINED_AT_A_TIME * rows)
        await asyncio.sleep(0.1)
        assert idle.queue.waiting_rows == EXPLAINED_AT_A_TIME * rows
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(explain_some())
    idle.queue.close()
    assert idle.queue.take() is None
    assert idle.queue.waiting_rows == 0
    explainer.stop()


def test_row_beyond_those_that_may_wait_is_refused(idle, answered):
    explainer = Explainer(idle, ServiceLimits())

    async def explain_many():
        asked = [asyncio.ensure_future(explainer.explain(answered)) for _ in range(MOST_EXPLANATIONS)]
        await asyncio.sleep(0)
        with pytest.raises(RequestError) as error:
            await explainer.explain(answered)
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        return error.value

    error = asyncio.run(explain_many())
    assert error.status == 429
    assert str(MOST_EXPLANATIONS) in error.message
    assert "retry-after" in error.headers
    explainer.stop()


def test_row_that_is_not_measured_in_time_is_given_up(pairs, answered):
    explainer = Explainer(pairs.service.engine, ServiceLimits(seconds=-1))
    with pytest.raises(RequestError, match="without each of its words") as error:
        asyncio.run(explainer.explain(answered))
    assert error.value.status == 429
    explainer.stop()


def test_removals_fit_the_limit_of_rows_that_wait():
    assert ServiceLimits().waiting_rows > EXPLAINED_AT_A_TIME * (1 + MOST_REMOVALS)
