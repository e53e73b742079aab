// The page at / in headless Chromium, against a server of our own that answers as the test wants:
//   node tests/http/page/run.mjs /usr/bin/chromium
// Prints "N passed, N failed"; exits with 1 on a failure.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';

import {Browser} from './browser.mjs';

const file = (name) => fs.readFileSync(new URL('../../../http/web/' + name, import.meta.url), 'utf8');
const html = file('index.html').replace(/@include (.*)@\n/g, (line, name) => file(name));
const policy = "default-src 'self' 'unsafe-inline'";

// ---------------------------------------------------------------- the server
const actor = (name, kind, more = {}) => ({name, kind, state: 'ready', device: '', incarnation: '18446744073709551615', restarts: 0, queue: 0, running: 0,
  blocks_total: 0, blocks_used: 0, blocks_cached: 0, tokens_per_second: 0, ...more});
function view() {
  const quantiles = {p50_ms: 0, p90_ms: 0, p99_ms: 0, count: 0};
  return {model: 'm<b>odel</b>', version: '0', url: '', device: 'host', uptime_seconds: 5, max_model_len: 2048, block_tokens: 16,
    actors: [actor('http_gateway', 'http_gateway'), actor('admission_controller', 'admission_controller', {queue: 3}), actor('conductor', 'conductor'),
      actor('prefill_worker 0', 'prefill_worker', {queue: 2, running: 1, blocks_total: 100, blocks_used: 25, blocks_cached: 25}),
      actor('decode_worker 0', 'decode_worker', {running: 4, blocks_total: 100}), actor('decode_worker 1', 'decode_worker', {state: 'restarting', restarts: 1, blocks_total: 100}),
      actor('cache_shard 0', 'cache_shard'), actor('supervisor', 'supervisor')],
    links: [{from: 'prefill_worker 0', to: 'decode_worker 0', transfers: 1, bytes: 1000}],
    tiers: [{name: 'dram', owner: 'cache_shard 0', bytes_used: 5e8, bytes_limit: 1e9, hit_tokens: 30, miss_tokens: 10, evicted_blocks: 7}],
    latency: {ttft: quantiles, tbt: quantiles, e2e: quantiles},
    counters: {requests_running: 5, requests_waiting: 3, requests_finished: 12345, requests_refused: 0, requests_cancelled: 0, preemptions: 0, prompt_tokens: 40,
      cached_tokens: 30, generated_tokens: 9, transfers: 1, transfer_bytes: 1000, transfer_failures: 0}};
}
const server = {key: '', cluster: view(), clusterDown: false, answer: null, requests: [], left: 0};
const send = (response, status, body, headers = {}) => {
  response.writeHead(status, {'content-type': 'application/json', ...headers});
  response.end(JSON.stringify(body));
};
const listener = http.createServer(async (request, response) => {
  if (request.url === '/') {
    response.writeHead(200, {'content-type': 'text/html; charset=utf-8', 'content-security-policy': policy});
    return response.end(html);
  }
  if (request.url === '/favicon.ico') return response.writeHead(204).end();
  let body = '';
  for await (const piece of request) body += piece;
  if (server.key && request.headers.authorization !== 'Bearer ' + server.key) return send(response, 401, {error: {message: 'The API key is missing.'}});
  if (request.url === '/cluster') return server.clusterDown ? response.destroy() : send(response, 200, server.cluster);
  server.requests.push(JSON.parse(body));
  response.on('close', () => { server.left += response.writableEnded ? 0 : 1; });
  const chunk = (choices, more = {}) => response.write('data: ' + JSON.stringify({id: 'c', object: 'chat.completion.chunk', choices, ...more}) + '\n\n');
  await server.answer({response, refuse: (...args) => send(response, ...args), begin: () => response.writeHead(200, {'content-type': 'text/event-stream'}),
    say: (content) => chunk([{index: 0, delta: {content}, finish_reason: null}]), raw: (text) => response.write(text),
    end(finish_reason, usage) {
      chunk([{index: 0, delta: {}, finish_reason}]);
      chunk([], {usage});
      response.end('data: [DONE]\n\n');
    }});
});
await new Promise((ready) => listener.listen(0, '127.0.0.1', ready));
const url = `http://127.0.0.1:${listener.address().port}/`;
const usage = (prompt, cached, completion) => ({prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, prompt_tokens_details: {cached_tokens: cached}});
const plainAnswer = (text) => ({begin, say, end}) => { begin(); text.match(/\s*\S+/g).forEach(say); end('stop', usage(40, 32, 7)); };

// ---------------------------------------------------------------- the tests
const browser = new Browser(process.argv[2] || '/usr/bin/chromium');
const tests = [];
const test = (name, options, run) => tests.push({name, options, run});
const log = 'document.getElementById("log")';
const lastAnswer = `[...${log}.querySelectorAll(".assistant .text")].at(-1)`;
async function ask(page, text) {
  await page.value('document.getElementById("prompt").focus()');
  await page.type(text);
  await page.enter();
}
const idle = 'document.getElementById("send").textContent === "Send"';

test('an answer is shown as it comes, and then what it took', {}, async (page) => {
  let goOn;
  const paused = new Promise((resolve) => { goOn = resolve; });
  server.answer = async ({begin, say, end, raw}) => {
    begin();
    say('One ');
    say('two ');
    await paused;
    raw(': keep-alive\n\n');
    say('three.');
    end('stop', usage(40, 32, 3));
  };
  await ask(page, 'Count');
  await page.until(`${lastAnswer}?.textContent === "One two "`, 'the first words, while the rest is to come');
  assert.equal(await page.value('document.getElementById("send").textContent'), 'Stop');
  goOn();
  await page.until(idle);
  assert.equal(await page.value(`${lastAnswer}.textContent`), 'One two three.');
  const facts = await page.value(`${log}.querySelector(".assistant .facts").textContent`);
  assert.match(facts, /first token/);
  assert.match(facts, /tokens\/s/);
  assert.match(facts, /32 of 40 prompt tokens from the cache/);
});
test('settings and the conversation so far reach the server', {}, async (page) => {
  server.answer = plainAnswer('Yes.');
  await page.value(`document.getElementById("settings-button").click(); document.getElementById("system").value = "Be short.";
    document.getElementById("temperature").value = "0.7"; document.getElementById("max-tokens").value = "33"`);
  await ask(page, 'First');
  await page.until(`${idle} && ${log}.querySelectorAll(".facts b").length > 0`);
  await ask(page, 'Second');
  await page.until(`${idle} && ${log}.querySelectorAll(".assistant .facts b").length > 4`);
  const request = server.requests.at(-1);
  assert.deepEqual(request.messages, [{role: 'system', content: 'Be short.'}, {role: 'user', content: 'First'}, {role: 'assistant', content: 'Yes.'}, {role: 'user', content: 'Second'}]);
  assert.equal(request.temperature, 0.7);
  assert.equal(request.max_tokens, 33);
  assert.deepEqual(request.stream_options, {include_usage: true});
});
test('text of a model is never HTML', {}, async (page) => {
  const hostile = 'A <img src=x onerror="window.harmed=1"> and <script>window.harmed=1</scr' + 'ipt>\n```html\n<b onclick=harm()>x</b>\n```\n**<i>y</i>** `<u>z</u>`';
  server.answer = ({begin, say, end}) => { begin(); say(hostile); end('stop', usage(1, 0, 1)); };
  await ask(page, '<b>me</b>');
  await page.until(`${idle} && ${log}.querySelectorAll(".facts b").length > 0`);
  assert.equal(await page.value(`${log}.querySelectorAll("img, .turn script, .turn i, .turn u").length - ${log}.querySelectorAll(".facts i").length`), 0);
  assert.equal(await page.value('window.harmed === undefined'), true);
  assert.ok((await page.value(`${lastAnswer}.textContent`)).includes('<img src=x'));
  assert.equal(await page.value(`${log}.querySelector("pre").textContent`), '<b onclick=harm()>x</b>');
  assert.equal(await page.value(`${log}.querySelector(".user .text").textContent`), '<b>me</b>');
});
test('Escape stops an answer, keeps what came and lets the server know', {}, async (page) => {
  const before = server.left;
  server.answer = ({begin, say}) => { begin(); say('Endless'); };
  await ask(page, 'Go on');
  await page.until(`${lastAnswer}?.textContent === "Endless"`);
  await page.press('Escape');
  await page.until(idle);
  assert.match(await page.value(`${log}.querySelector(".assistant .facts").textContent`), /stopped/);
  for (let looks = 0; looks < 500 && server.left === before; ++looks) await new Promise((resume) => setTimeout(resume, 10));
  assert.equal(server.left, before + 1);
  assert.equal(await page.value(`${log}.querySelectorAll(".problem").length`), 0);
});
test('a refusal is shown with its wait, and the question can be sent again', {}, async (page) => {
  server.answer = ({refuse}) => refuse(429, {error: {message: 'The queue is full.'}}, {'retry-after': '2'});
  await ask(page, 'Busy?');
  await page.until(`${log}.querySelector(".problem")?.textContent === "The queue is full. Try again in 2 s."`);
  await page.until(idle);
  assert.equal(await page.value('document.getElementById("prompt").value'), 'Busy?');
  server.answer = plainAnswer('Not now.');
  await page.enter();
  await page.until(`${lastAnswer}.textContent === "Not now."`);
  assert.equal(server.requests.at(-1).messages.length, 1, 'the refused question is not in the conversation twice');
});
test('an error in the middle of a stream keeps the text and says what happened', {}, async (page) => {
  server.answer = ({begin, say, raw, response}) => { begin(); say('Half'); raw('data: {"error":{"message":"The worker is gone."}}\n\n'); response.end(); };
  await ask(page, 'Tell me');
  await page.until(`${log}.querySelector(".problem")?.textContent === "The worker is gone."`);
  assert.equal(await page.value(`${lastAnswer}.textContent`), 'Half');
  server.answer = ({begin, say, response}) => { begin(); say('Cut'); response.end(); };
  await page.until(idle);
  await ask(page, 'Again');
  await page.until(`${log}.querySelectorAll(".problem").length === 2`, 'a stream without its end is a problem');
});
test('a server with keys is asked for one only after its 401', {}, async (page) => {
  const hidden = 'document.getElementById("key-row").classList.contains("hidden")';
  await page.until('document.getElementById("live-text").textContent === "live"');
  assert.equal(await page.value(hidden), true);
  server.key = 'secret';
  server.answer = plainAnswer('Welcome.');
  await ask(page, 'Hello');
  await page.until(`!${hidden}`);
  await page.until(idle);
  await page.value('document.getElementById("key").focus()');
  await page.type('secret');
  await page.value('document.getElementById("prompt").focus()');
  await page.enter();
  await page.until(`${lastAnswer}?.textContent === "Welcome."`);
  await page.until('document.getElementById("live-text").textContent === "live"', 'the picture uses the key too');
});
test('the picture has every actor, and its bars and marks say what the server said', {}, async (page) => {
  await page.until('document.querySelectorAll("#picture .card").length === 7');
  const words = await page.value('document.getElementById("picture").textContent');
  for (const word of ['Gateway', 'Admission', 'Conductor', 'Prefill 0', 'Decode 0', 'Decode 1', 'Cache shard 0', '3 waiting', '2 waiting, 1 running', 'restarting', '75 %', '7 blocks evicted', '18446744073709551615']) {
    assert.ok(words.includes(word), word + ' in ' + words);
  }
  assert.equal(await page.value('document.querySelectorAll("#picture g.down").length'), 1);
  assert.equal(await page.value('document.querySelectorAll("#picture .waits").length'), 2);
  assert.equal(await page.value('document.querySelectorAll("#picture .runs").length'), 5);
  const share = await page.value('(() => { const g = [...document.querySelectorAll("#picture g")].find((one) => one.textContent.includes("25 used")); const w = (c) => Number(g.querySelector(c).getAttribute("width")); return [w(".used") / w(".track"), w(".kept") / w(".track")]; })()');
  assert.ok(Math.abs(share[0] - 0.25) < 1e-6 && Math.abs(share[1] - 0.5) < 1e-6, String(share));
  assert.match(await page.value('document.getElementById("tiles").textContent'), /12,345finished/);
  assert.equal(await page.value('document.querySelectorAll("#table-body tr").length'), 8);
  assert.equal(await page.value('document.getElementById("what").querySelector("b b")'), null);
});
test('KV that moves is seen to move, and only where it moves', {}, async (page) => {
  const moving = 'document.querySelectorAll("#picture .flow.kv.on").length';
  await page.until('document.querySelectorAll("#picture .card").length === 7');
  assert.equal(await page.value(moving), 0);
  const pump = setInterval(() => { server.cluster.links[0].bytes += 5e6; server.cluster.counters.transfer_bytes += 5e6; }, 50);
  await page.until(`${moving} === 1`, 'one wire moves');
  await page.until('/MB\\/s/.test(document.querySelector("#picture .tag.on")?.textContent)', 'its rate is written');
  clearInterval(pump);
  await page.until(`${moving} === 0`, 'and it rests when the bytes rest');
});
test('a server that is gone is said to be gone, and is found again', {}, async (page) => {
  await page.until('document.getElementById("live-text").textContent === "live"');
  server.clusterDown = true;
  await page.until('document.getElementById("live-text").textContent.startsWith("no answer") && document.getElementById("cluster").classList.contains("stale")');
  server.clusterDown = false;
  await page.until('document.getElementById("live-text").textContent === "live"');
});
for (const dark of [false, true]) {
  test('a phone shows one view at a time, by keyboard too, and nothing sticks out' + (dark ? ', in the dark' : ''), {width: 390, height: 844, dark}, async (page) => {
    const shown = (id) => `getComputedStyle(document.getElementById("${id}")).display !== "none"`;
    server.answer = plainAnswer('An answer with averylongwordthatwouldnotfitintoaphonewithoutbeingbrokensomewhereinitsmiddle.');
    await ask(page, 'Hello');
    await page.until(`${idle} && ${log}.querySelectorAll(".facts b").length > 0`);
    assert.ok(await page.value('document.documentElement.scrollWidth') <= 390);
    assert.equal(await page.value(`${shown('chat')} && !(${shown('cluster')})`), true);
    await page.value('document.getElementById("tab-chat").focus()');
    await page.press('ArrowRight');
    assert.equal(await page.value(`${shown('cluster')} && !(${shown('chat')})`), true);
    await page.until('document.querySelectorAll("#picture .card").length === 7');
    const overflow = await page.value('[...document.querySelectorAll("#picture text")].filter((t) => { const b = t.getBoundingClientRect(); return b.right > 384 || b.left < 6; }).map((t) => t.textContent).join()');
    assert.equal(overflow, '');
    assert.ok(await page.value('document.documentElement.scrollWidth') <= 390);
    const light = await page.value('getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] > 128');
    assert.equal(light, !dark);
  });
}

let passed = 0;
let failed = 0;
for (const {name, options, run} of tests) {
  Object.assign(server, {key: '', cluster: view(), clusterDown: false, answer: null});
  let page;
  try {
    page = await browser.open(url, options);
    await run(page);
    assert.deepEqual(page.complaints, []);
    passed += 1;
    console.log('ok      ' + name);
  } catch (error) {
    failed += 1;
    console.log('FAILED  ' + name + '\n        ' + String(error.stack).split('\n').slice(0, 12).join('\n        '));
  }
  await page?.close();
}
await browser.close();
listener.closeAllConnections();
listener.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
