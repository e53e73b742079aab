// ---------------------------------------------------------------- chat
const conversation = [];
let model = "";
let running = null;  // the AbortController of the answer in progress

/** A little Markdown, built from nodes: fenced code, `code`, **bold**. Everything else stays as the model wrote it. */
function inline(parent, text) {
  for (const piece of text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)) {
    if (piece.length > 2 && piece.startsWith("`") && piece.endsWith("`")) parent.append(make("code", {textContent: piece.slice(1, -1)}));
    else if (piece.length > 4 && piece.startsWith("**") && piece.endsWith("**")) parent.append(make("b", {textContent: piece.slice(2, -2)}));
    else if (piece) parent.append(piece.replace(/^(\s*)[-*] /gm, "$1• "));
  }
}
function render(target, text) {
  const nodes = [];
  const thought = /^\s*<think>([\s\S]*?)(<\/think>|$)/.exec(text);
  if (thought) {
    text = text.slice(thought[0].length);
    if (thought[1].trim()) nodes.push(make("details", {className: "thought", open: !thought[2]}, make("summary", {textContent: "Thinking"}), thought[1].trim()));
  }
  const parts = text.split(/^```[^\n]*\n?/m);
  parts.forEach((part, i) => {
    if (i % 2) return nodes.push(make("pre", {tabIndex: 0}, make("code", {textContent: part.replace(/\n$/, "")})));
    const trimmed = part.replace(/^\n+|\n+$/g, "");
    if (!trimmed) return;
    const last = i === parts.length - 1;  // stays inline, so that the mark of an answer in progress follows its last word
    const block = make(last ? "span" : "div", {className: last ? "" : "block"});
    inline(block, trimmed);
    nodes.push(block);
  });
  target.replaceChildren(...nodes);
}
const nearEnd = () => $("log").scrollHeight - $("log").scrollTop - $("log").clientHeight < 60;
const toEnd = () => { $("log").scrollTop = $("log").scrollHeight; };

function addTurn(role) {
  $("welcome").classList.add("hidden");
  const turn = make("div", {className: "turn " + role});
  const text = make("div", {className: "text"});
  const facts = make("div", {className: "facts"});
  turn.append(make("span", {className: "unseen", textContent: role === "user" ? "You: " : "Answer: "}), text, facts);
  $("log").append(turn);
  return {turn, text, facts};
}
function fact(...parts) { return make("span", {}, ...parts); }
const strong = (text) => make("b", {textContent: text});

function showFacts(target, answer) {
  const parts = [];
  if (answer.firstAt) parts.push(fact("first token ", strong(milliseconds(answer.firstAt - answer.sentAt))));
  const tokens = answer.usage ? answer.usage.completion_tokens : answer.pieces;
  const seconds = (answer.lastAt - answer.firstAt) / 1000;
  if (tokens > 1 && seconds > 0.01) parts.push(fact(strong(rate((tokens - 1) / seconds)), " tokens/s"));
  if (tokens) parts.push(fact(strong(count(tokens)), tokens === 1 ? " token" : " tokens"));
  if (answer.usage) {
    const prompt = answer.usage.prompt_tokens;
    const cached = (answer.usage.prompt_tokens_details || {}).cached_tokens || 0;
    const fill = make("i", {});
    fill.style.width = (prompt ? 100 * cached / prompt : 0) + "%";
    const reuse = fact(strong(count(cached)), " of " + count(prompt) + " prompt tokens from the cache");
    parts.push(make("span", {className: "reuse"}, make("span", {className: "bar"}, fill), reuse));
  }
  if (answer.stopped) parts.push(fact("stopped"));
  else if (answer.finish === "length") parts.push(fact("ended at the longest answer allowed"));
  target.replaceChildren(...parts);
}

/** Reads SSE events from a response: calls `use` with each event's data. */
async function readEvents(response, use) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    rest += done ? decoder.decode() : decoder.decode(value, {stream: true});
    const events = rest.split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const event of events) {
      const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, "")).join("\n");
      if (data) use(data);
    }
    if (done) return;
  }
}
async function refusal(response) {
  const body = await response.json().catch(() => null);
  let message = body && body.error && body.error.message ? body.error.message : "The server answered " + response.status + ".";
  const wait = response.headers.get("Retry-After");
  if (wait) message += " Try again in " + wait + " s.";
  return message;
}

async function answerInto(view, answer) {
  const messages = $("system").value.trim() ? [{role: "system", content: $("system").value.trim()}] : [];
  const body = {messages: messages.concat(conversation), stream: true, stream_options: {include_usage: true},
    temperature: Number($("temperature").value), max_tokens: Math.max(1, Math.floor(Number($("max-tokens").value) || 256))};
  if (model) body.model = model;
  answer.sentAt = performance.now();
  const response = await fetch("v1/chat/completions", {method: "POST", headers: headers({"Content-Type": "application/json"}), body: JSON.stringify(body), signal: running.signal});
  if (response.status === 401) askForKey();
  if (!response.ok) throw new Error(await refusal(response));
  $("key-row").classList.add("hidden");
  let due = false;
  const show = () => {
    due = false;
    const follow = nearEnd();
    render(view.text, answer.text);
    if (follow) toEnd();
  };
  await readEvents(response, (data) => {
    if (data === "[DONE]") { answer.done = true; return; }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message || "The server broke off.");
    if (chunk.usage) answer.usage = chunk.usage;
    const choice = chunk.choices && chunk.choices[0];
    if (!choice) return;
    if (choice.finish_reason) answer.finish = choice.finish_reason;
    if (!choice.delta || !choice.delta.content) return;
    answer.lastAt = performance.now();
    answer.firstAt = answer.firstAt || answer.lastAt;
    answer.pieces += 1;
    answer.text += choice.delta.content;
    if (!due) { due = true; requestAnimationFrame(show); }
  });
  show();
  if (!answer.done) throw new Error("The connection ended before the answer did.");
}

async function submit() {
  const text = $("prompt").value.trim();
  if (!text || running) return;
  apiKey = $("key").value.trim();
  $("prompt").value = "";
  fitPrompt();
  addTurn("user").text.textContent = text;
  conversation.push({role: "user", content: text});
  const view = addTurn("assistant");
  const answer = {text: "", pieces: 0, firstAt: 0, lastAt: 0};
  view.turn.classList.add("busy");
  running = new AbortController();
  showSend();
  toEnd();
  try {
    await answerInto(view, answer);
  } catch (error) {
    if (error.name === "AbortError") answer.stopped = true;
    else view.turn.insertBefore(make("div", {className: "problem", role: "alert", textContent: error instanceof TypeError ? "No answer from the server." : error.message}), view.facts);
  }
  running = null;
  view.turn.classList.remove("busy");
  render(view.text, answer.text);
  if (answer.text) {
    conversation.push({role: "assistant", content: answer.text.replace(/^\s*<think>[\s\S]*?(<\/think>|$)/, "").trim()});
  } else {
    // A question that got no answer is asked again, not sent twice.
    conversation.pop();
    if (!$("prompt").value) $("prompt").value = text;
    fitPrompt();
  }
  showFacts(view.facts, answer);
  showSend();
  toEnd();
}
function showSend() {
  $("send").textContent = running ? "Stop" : "Send";
  $("send").classList.toggle("stop", Boolean(running));
  $("send").disabled = !running && !$("prompt").value.trim();
}
function fitPrompt() {
  const box = $("prompt");
  box.style.height = "auto";
  box.style.height = Math.min(box.scrollHeight, 200) + "px";
  showSend();
}
const facts = "The red fox holds 4821. It was a fine morning, and the road was quiet. The tall owl holds silver. The young sailor holds 77. " +
  "Nobody had come to the house for a week. The red owl holds 306. The blue fox holds 59. The old king follows the tall owl. ";
const ideas = [
  ["Recall a fact", "A text with facts in it, and a question about one", facts + "What does the red fox hold?"],
  ["The same text, another question", "Its prefix is in the cache by now", facts + "What does the tall owl hold?"],
  ["Continue a story", "Plain English, from a first line", "It was a dark evening, and the captain"],
];
for (const [title, note, text] of ideas) {
  $("ideas").append(make("button", {type: "button", className: "idea", onclick() { $("prompt").value = text; fitPrompt(); $("prompt").focus(); }}, make("b", {textContent: title}), make("span", {textContent: note})));
}
$("composer").addEventListener("submit", (event) => { event.preventDefault(); running ? running.abort() : submit(); });
$("prompt").addEventListener("input", fitPrompt);
$("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
});
$("key").addEventListener("change", () => { apiKey = $("key").value.trim(); poll(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && running) running.abort(); });
$("temperature").addEventListener("input", () => { $("temperature-shown").textContent = $("temperature").value; });
$("settings-button").addEventListener("click", () => {
  const hidden = $("settings").classList.toggle("hidden");
  $("settings-button").setAttribute("aria-expanded", String(!hidden));
});
$("clear").addEventListener("click", () => {
  if (running) running.abort();
  conversation.length = 0;
  for (const turn of [...$("log").querySelectorAll(".turn")]) turn.remove();
  $("welcome").classList.remove("hidden");
  $("prompt").focus();
});
function showTab(name) {
  for (const tab of ["chat", "cluster"]) {
    $(tab).classList.toggle("shown", tab === name);
    set($("tab-" + tab), {"aria-selected": String(tab === name), tabindex: tab === name ? 0 : -1});
  }
  if (name === "cluster") refreshPicture();
}
for (const tab of ["chat", "cluster"]) {
  $("tab-" + tab).addEventListener("click", () => showTab(tab));
  $("tab-" + tab).addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = tab === "chat" ? "cluster" : "chat";
    showTab(other);
    $("tab-" + other).focus();
  });
}
showSend();

