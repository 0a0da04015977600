"""The page in a real browser that types and presses: what a person sees is what the model answers."""

from dataclasses import replace

import pytest

from tests.browser import needs_browser
from tests.driven_browser import driven_browser
from tests.planted_words import planted
from tests.service import running_service
from tests.small_pipeline import QUEUES
from tuneline import TextClassifier
from tuneline.model.tasks import Classification
from tuneline.serve.guard import PAGE_FILES
from tuneline.serve.occlusion import largest_effects, word_effects

pytestmark = pytest.mark.timeout(300)

TOKEN = "a token of 32 characters, or more"  # noqa: S105 - of these tests alone
SECRET = TOKEN.replace(" ", "-").replace(",", "")
LATE = {"late": [3.0, 0.0, 0.0], "fine": [-1.0, 0.5, 0.0]}
PAIR = ("the parcel", "my order is late and was fine again")
SCREENS = [(1280, "dark"), (390, "light")]
ATTACK = '<img src=x onerror="alert(1)"><script>alert(2)</script> late'


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with driven_browser(tmp_path_factory.mktemp("browser") / "profile") as page:
        yield page


@pytest.fixture
def page(browser):
    """The browser, whose messages and requests are those of the test."""
    browser.console.clear()
    browser.requests.clear()
    return browser


@pytest.fixture
def pair(pair_folder, tmp_path):
    return planted(TextClassifier.load(pair_folder, threads=1), tmp_path, LATE)


@pytest.fixture
def single(text_folder, tmp_path):
    return planted(TextClassifier.load(text_folder, threads=1), tmp_path, LATE)


def open_page(page, service, width=1280, scheme="light"):
    page.open(f"{service.address}/", width, scheme)
    page.wait_for("document.getElementById('text-0') || !document.getElementById('token-form').hidden")


def ask(page, *texts):
    """Type texts, press the button, and wait for the words."""
    for number, text in enumerate(texts):
        page.click(f"#text-{number}")
        page.type(text)
    page.click("#row-form button")
    page.wait_for("document.querySelector('#why .note')")


def shown(number):
    return f"{number:.3f}"


def check_quiet(page, service):
    """Check that nothing was logged, and nobody but the service was asked."""
    assert page.console == []
    assert all(address.startswith((service.address, "data:")) for address in page.requests)


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_person_sees_answer_probabilities_version_and_why(page, pair, width, scheme):
    prediction = pair.predict_one(PAIR)
    with running_service(pair, name="tickets") as service:
        open_page(page, service, width, scheme)
        assert page.text("h1") == "tickets"
        assert page.texts("#fields label") == list(pair.text_columns)
        assert page.sees("#empty")
        assert page.unreadable() == []

        ask(page, *PAIR)
        assert page.text("#answer .said") == prediction.label
        assert shown(prediction.probability) in page.text("#answer")
        assert pair.version in page.text("#answer-facts")
        assert "the whole text" in page.text("#answer-facts")
        scores = sorted(prediction.scores.items(), key=lambda score: -score[1])
        assert page.texts("#scores tbody th") == [label for label, _ in scores]
        assert page.texts("#scores tbody .num") == [shown(score) for _, score in scores]
        bars = page.value("[...document.querySelectorAll('#scores .bar i')].map((bar) => bar.offsetWidth)")
        assert bars == sorted(bars, reverse=True)
        assert bars[0] > bars[-1]

        effects = largest_effects(word_effects(pair, PAIR), 5)
        words = page.texts("#why tbody th bdi")
        assert words == [effect.word for effect in effects] == ["late", "fine"]
        changes = [number.replace("\u2212", "-") for number in page.texts("#why tbody .num")]
        assert changes == [f"{effect.effect:+.3f}" for effect in effects]
        assert page.texts("#why tbody small") == ["body", "body"]
        assert prediction.label in page.text("#why .note")
        assert "not a cause" in page.text("#why .note")
        assert page.text("#why-status") == "10 words were left out, one by one."
        assert not page.sees("#empty")
        assert page.unreadable() == []
        check_quiet(page, service)


@needs_browser
def test_typed_text_and_labels_are_shown_as_text(page, single, tmp_path):
    weights = {"late": [0.5, 0.0, 0.0], "img": [1.0, 0.0, 0.0]}
    labels = ('<img src=x onerror="alert(3)">', "<b>bold</b>", "__proto__")
    model = replace(planted_small(single, tmp_path, weights), task=Classification(labels))
    with running_service(model, name="<script>alert(4)</script>") as service:
        open_page(page, service)
        ask(page, ATTACK)
        assert page.text("#answer .said") == labels[0]
        assert sorted(page.texts("#scores tbody th")) == sorted(labels)
        assert page.text("h1") == "<script>alert(4)</script>"
        assert page.value("document.querySelectorAll('body script, main img, main b').length") == 0
        # one that gets into the page all the same may not run
        script = "Object.assign(document.createElement('script'), {text: 'seen = 1'})"
        page.value(f"document.body.append({script})")
        assert page.value("typeof seen") == "undefined"
        (refused,) = page.console
        assert "Content Security Policy" in refused


def planted_small(model, folder, weights):
    """Return a model whose words that are several tokens are left out of the weights."""
    tokenizer = model.encoder.tokenizer
    known = {}
    for word, values in weights.items():
        if len(tokenizer.encode(word, add_special_tokens=False).ids) == 1:
            known[word] = values
    return planted(model, folder, known)


@needs_browser
def test_token_is_asked_for_and_kept_in_the_page_alone(page, single):
    with running_service(single, token=SECRET) as service:
        open_page(page, service)
        assert page.sees("#token-form")
        assert not page.sees("#row-form")
        assert not page.sees("#problem")
        assert page.unreadable() == []

        page.click("#token")
        page.type("another-token-of-someone")
        page.key("Enter")
        page.wait_for("!document.getElementById('problem').hidden")
        assert "token" in page.text("#problem")

        assert page.focused() == "token"
        page.type(SECRET)  # over what was there, which is selected
        page.key("Enter")
        page.wait_for("document.getElementById('text-0')")
        assert not page.sees("#token-form")
        assert not page.sees("#problem")
        ask(page, "it is late")
        assert page.text("#answer .said") == QUEUES[0]
        assert page.value("localStorage.length + sessionStorage.length + document.cookie.length") == 0
        assert not any(SECRET in address for address in page.requests)


@pytest.mark.parametrize("path", PAGE_FILES)
def test_files_of_the_page_need_no_token_and_what_they_ask_does(single, path):
    with running_service(single, token=SECRET) as service:
        answer = service.client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] == PAGE_FILES[path][2]
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "://" not in answer.text  # of no other site
        assert service.post(path, {"inputs": "late"}).status_code == 401
        for asked in ("/v1/predictions", "/v1/why"):
            assert service.post(asked, {}).status_code == 401
        assert service.client.get("/info").status_code == 401
