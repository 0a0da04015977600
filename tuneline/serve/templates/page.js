// The page of the service: a row in, its answer and the words that move it out. Texts of people, labels and
// messages become text of the page (textContent), and never HTML.

const MOST_CLASSES = 12;
const MOST_WORDS = 5;  // as `tuneline predict --why`
const LEAST_CHANGE = 0.0005;  // of a probability, which has three digits here

const part = (id) => document.getElementById(id);
const empty = part("empty");
let token = "";
let columns = [];
let asking = new AbortController();
let afterToken = start;  // what is done again when a token was typed

// -- the service

class ServiceError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, body, signal) {
  if (/[^\x21-\x7e]/.test(token)) throw new ServiceError(401, "This is no token: it has characters of no header.");
  const headers = token ? {authorization: `Bearer ${token}`} : {};
  const options = {headers, signal};
  if (body !== undefined) {
    headers["content-type"] = "application/json";
    options.method = "POST";
    options.body = JSON.stringify(body);
  }

  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, "The service does not answer.");
  }
  let answer;
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(response.status, `The service answers ${response.status} without a reason.`);
  }
  if (!response.ok) throw new ServiceError(response.status, answer.error);
  return answer;
}

async function start() {
  let info;
  try {
    info = await ask("info");
  } catch (error) {
    showError(error, start);
    return;
  }
  columns = info.text_columns;
  document.title = `${info.model_id} · Tuneline`;
  part("name").firstElementChild.textContent = info.model_id;
  part("facts").textContent = `${outputSentence(info)} It reads ${info.max_input_length} tokens at once.`;
  part("fields").replaceChildren(...columns.map(field));
  part("row-form").hidden = false;
  part("results").hidden = false;
  part("token-form").hidden = true;
  if (token) part("text-0").focus();  // the form that had the cursor is gone
}

async function predict() {
  asking.abort();
  asking = new AbortController();
  const signal = asking.signal;
  const row = columns.map((_, number) => part(`text-${number}`).value);
  part("problem").hidden = true;
  part("why-part").hidden = true;

  part("results").setAttribute("aria-busy", "true");
  try {
    const answer = await ask("v1/predictions", {rows: [row]}, signal);
    part("token-form").hidden = true;
    showPrediction(answer.predictions[0]);
  } catch (error) {
    if (error.name !== "AbortError") showError(error, predict);
    return;
  } finally {
    if (!signal.aborted) part("results").removeAttribute("aria-busy");
  }
  await explain(row, signal);
}

async function explain(row, signal) {
  part("why-part").hidden = false;
  part("why").replaceChildren();
  const status = part("why-status");
  status.classList.add("busy");
  status.textContent = "The row is predicted again without each of its words.";
  try {
    const why = await ask("v1/why", {row}, signal);
    status.textContent = `${why.effects.length} words were left out, one by one.`;
    showWhy(why);
  } catch (error) {
    if (error.name === "AbortError") return;
    status.textContent = error.message;
  }
  status.classList.remove("busy");
}

// -- what it shows

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function field(column, number) {
  const box = element("div");
  const label = element("label", column);
  const text = element("textarea");
  text.id = `text-${number}`;
  text.dir = "auto";
  label.htmlFor = text.id;
  if (columns.length === 1) text.className = "only";
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      part("row-form").requestSubmit();
    }
  });
  box.append(label, text);
  return box;
}

function outputSentence(info) {
  const count = Object.keys(info.model_type.classifier.id2label).length;
  if (info.task === "regression") return "It answers with a number.";
  if (info.task === "multilabel") return `It answers with any of ${count} labels.`;
  return `It answers with one of ${count} classes.`;
}

function showError(error, again) {
  part("answer").replaceChildren(empty);
  part("answer-facts").replaceChildren();
  part("scores-part").hidden = true;
  part("why-part").hidden = true;
  if (error.status === 401) {
    afterToken = again;
    part("token-form").hidden = false;
    part("token").focus();
    part("token").select();
    if (!token) return;  // none was refused yet
  }
  part("problem").textContent = error.message;
  part("problem").hidden = false;
}

function showPrediction(prediction) {
  part("answer").replaceChildren(...answerParagraphs(prediction));
  part("answer-facts").replaceChildren(
    element("dt", "Version"), element("dd", prediction.version, "mono"),
    element("dt", "Read"), element("dd", readPart(prediction), prediction.truncated ? "warn" : ""),
  );
  const scores = Object.entries(prediction.scores).sort((one, other) => other[1] - one[1]);
  part("scores-part").hidden = scores.length === 0;
  showScores(scores, new Set(prediction.labels ?? [prediction.label]));
}

function readPart(prediction) {
  if (prediction.truncated) return "a part of the text, which is longer than what the model reads";
  return "the whole text";
}

function answerParagraphs(prediction) {
  const said = element("p", undefined, "said");
  const paragraphs = [said];
  if (prediction.reason !== null) {
    said.textContent = "No answer";
    said.classList.add("none");
    paragraphs.push(element("p", `Because ${prediction.reason}.`));
  } else if (prediction.number !== null) {
    said.textContent = shownNumber(prediction.number);
    if (prediction.interval !== null) {
      const [low, high] = prediction.interval.map(shownNumber);
      paragraphs.push(element("p", `Interval of 90 %: ${low} to ${high}`));
    }
  } else if (prediction.labels !== null) {
    said.append(...prediction.labels.map((label) => element("bdi", label)));
    if (prediction.labels.length === 0) said.textContent = "No label";
    paragraphs.push(element("p", `All of it is right with probability ${shownShare(prediction.probability)}`));
  } else {
    said.append(element("bdi", prediction.label));
    paragraphs.push(element("p", `Probability ${shownShare(prediction.probability)}`));
  }
  return paragraphs;
}

function showScores(scores, chosen) {
  const first = table("Probability of each class", ["Class", "", "Probability"]);
  const rest = table("Further classes", ["Class", "", "Probability"]);
  scores.forEach(([label, share], number) => {
    const bar = element("span", undefined, chosen.has(label) ? "bar" : "bar other");
    const filled = element("i");
    filled.style.setProperty("--to", `${100 * share}%`);
    bar.append(filled);
    const row = amountRow(element("bdi", label), bar, shownShare(share));
    if (chosen.has(label)) row.className = "chosen";
    (number < MOST_CLASSES ? first : rest).tBodies[0].append(row);
  });
  part("scores").replaceChildren(first);
  if (scores.length > MOST_CLASSES) {
    const fold = element("details");
    fold.append(element("summary", `${scores.length - MOST_CLASSES} further classes`), rest);
    part("scores").append(fold);
  }
}

function showWhy(why) {
  const isShown = ({label, effect}) => Math.abs(effect) >= (label === null ? 0 : LEAST_CHANGE) && effect !== 0;
  const moved = why.effects.filter(isShown).slice(0, MOST_WORDS);
  const notes = [];
  if (moved.length === 0) {
    notes.push("Without any one word, the answer is the same to three digits.");
  } else {
    part("why").append(effectTable(moved));
    const labels = new Set(moved.map((effect) => effect.label));
    notes.push(`${changeSentence(labels)} Below 0, the word supports the answer.`);
  }
  notes.push("This is a measurement of this model on this text, and not a cause.");
  part("why").append(element("p", notes.join(" "), "note"));
}

function changeSentence(labels) {
  const [label] = labels;
  if (label === null) return "The change of the number without the word.";
  if (labels.size > 1) return "The change of the probability of a label without the word.";
  return `The change of the probability of \u2068${label}\u2069 without the word.`;
}

function effectTable(moved) {
  const most = moved[0].label === null ? Math.abs(moved[0].effect) : 1;
  const labels = new Set(moved.map((effect) => effect.label));
  const made = table("Change of the answer without each word", ["Word", "", "Change"]);
  for (const effect of moved) {
    const word = element("span");
    word.append(element("bdi", effect.word));
    const places = [];
    if (columns.length > 1) places.push(effect.column);
    if (labels.size > 1) places.push(effect.label);
    if (places.length > 0) word.append(element("small", places.join(" · ")));

    const bar = element("span", undefined, "change");
    const filled = element("i", undefined, effect.effect < 0 ? "less" : "more");
    filled.style.setProperty("--width", `${(50 * Math.abs(effect.effect)) / most}%`);
    bar.append(filled);
    made.tBodies[0].append(amountRow(word, bar, shownChange(effect)));
  }
  return made;
}

function table(caption, heads) {
  const made = element("table", undefined, "amounts");
  made.append(element("caption", caption));
  const row = made.createTHead().insertRow();
  heads.forEach((head, number) => {
    const cell = element(head ? "th" : "td", head, number === 2 ? "num" : "");
    if (head) cell.scope = "col";
    row.append(cell);
  });
  made.createTBody();
  return made;
}

function amountRow(name, bar, amount) {
  const row = element("tr");
  const head = element("th");
  head.scope = "row";
  head.append(name);
  const middle = element("td");
  bar.setAttribute("aria-hidden", "true");  // the number beside it says the same
  middle.append(bar);
  row.append(head, middle, element("td", amount, "num"));
  return row;
}

// -- numbers

function shownShare(share) {
  if (share > 0.9995 && share < 1) return "> 0.999";
  if (share > 0 && share < 0.0005) return "< 0.001";
  return share.toFixed(3);
}

function shownNumber(value) {
  return String(Number(value.toPrecision(5))).replace("-", "\u2212");
}

function shownChange({label, effect}) {
  const size = Math.abs(effect);
  const digits = label === null ? String(Number(size.toPrecision(3))) : size.toFixed(3);
  return (effect < 0 ? "\u2212" : "+") + digits;
}

// -- what people do

part("row-form").addEventListener("submit", (event) => {
  event.preventDefault();
  predict();
});
part("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = part("token").value.trim();
  part("problem").hidden = true;
  afterToken();
});
start();
