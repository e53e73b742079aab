// The official openai package, unmodified, against a running server:
//   scripts/fetch_openai_client.sh
//   BASE_URL=http://127.0.0.1:8000 [API_KEY=...] node tests/openai/run.mjs [part of a test's name]
// Nothing here depends on what the model says, only on what the API promises about it. OPENAI_PACKAGE names the package's
// folder when it is not build/npm/openai/node_modules/openai. Prints "N passed, N failed"; exits with 1 on a failure.
import assert from 'node:assert/strict';
import path from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const folder = process.env.OPENAI_PACKAGE || path.join(here, '../../build/npm/openai/node_modules/openai');
const {default: OpenAI, APIUserAbortError, AuthenticationError, BadRequestError, NotFoundError} =
    await import(pathToFileURL(path.join(folder, 'index.mjs')));

const root = (process.env.BASE_URL || 'http://127.0.0.1:8000').replace(/\/(v1\/?)?$/, '');
const key = process.env.API_KEY || '';
const options = {baseURL: root + '/v1', maxRetries: 0, timeout: 60_000};
const client = new OpenAI({...options, apiKey: key || 'none'});
const authorization = key ? {Authorization: 'Bearer ' + key} : {};
const post = (where, body) => fetch(root + where, {method: 'POST', headers: {'Content-Type': 'application/json', ...authorization}, body});

const tests = [];
const test = (name, run) => tests.push({name, run});
const collect = async (stream) => {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
};
const rejection = (promise) => promise.then((value) => assert.fail('accepted: ' + JSON.stringify(value).slice(0, 200)), (error) => error);
const text = (completion) => completion.choices[0].message.content;

const models = await client.models.list();
const model = models.data[0].id;
const contextLength = models.data[0].max_model_len;
const question = [{role: 'user', content: 'The red fox holds 4821. What does the red fox hold?'}];
const start = 'It was a dark evening, and the';
const greedy = {model, temperature: 0};

// ---------------------------------------------------------------- models
test('models: the list and each of its members', async () => {
  assert.equal(models.object, 'list');
  for await (const one of client.models.list()) {
    assert.equal(one.object, 'model');
    assert.equal(typeof one.created, 'number');
    const same = await client.models.retrieve(one.id);
    assert.deepEqual(same, one);
  }
  assert.ok(contextLength > 0);
});

// ---------------------------------------------------------------- chat
test('chat: a plain answer', async () => {
  const {data, response} = await client.chat.completions.create({...greedy, messages: question, max_tokens: 16}).withResponse();
  assert.match(response.headers.get('content-type'), /^application\/json/);
  assert.match(data.id, /^chatcmpl-/);
  assert.equal(data.object, 'chat.completion');
  assert.equal(data.model, model);
  assert.ok(Math.abs(data.created - Date.now() / 1000) < 3600);
  assert.equal(data.choices.length, 1);
  assert.equal(data.choices[0].index, 0);
  assert.equal(data.choices[0].message.role, 'assistant');
  assert.equal(typeof text(data), 'string');
  assert.ok(['stop', 'length'].includes(data.choices[0].finish_reason));
  assert.ok(data.usage.prompt_tokens > 0);
  assert.ok(data.usage.completion_tokens > 0 && data.usage.completion_tokens <= 16);
  assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);
  assert.equal(typeof data.usage.prompt_tokens_details.cached_tokens, 'number');
});
test('chat: text parts, a system and a developer message', async () => {
  const parts = question[0].content.split(/(?<=\.) /).map((part) => ({type: 'text', text: part}));
  for (const role of ['system', 'developer']) {
    const answer = await client.chat.completions.create({...greedy, max_completion_tokens: 4, messages: [{role, content: 'Be short.'}, {role: 'user', content: parts}]});
    assert.ok(answer.usage.completion_tokens <= 4);
  }
});
test('chat: a stream says what the whole answer says', async () => {
  const whole = await client.chat.completions.create({...greedy, messages: question, max_tokens: 24, ignore_eos: true});
  const chunks = await collect(await client.chat.completions.create({...greedy, messages: question, max_tokens: 24, ignore_eos: true, stream: true}));
  assert.deepEqual(chunks[0].choices[0].delta, {role: 'assistant', content: ''});
  assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''), text(whole));
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  assert.ok(chunks.every((chunk) => chunk.object === 'chat.completion.chunk' && !chunk.usage));
  const reasons = chunks.map((chunk) => chunk.choices[0].finish_reason);
  assert.equal(reasons.at(-1), 'length');
  assert.ok(reasons.slice(0, -1).every((reason) => reason === null));
  const between = chunks.slice(1, -1);
  assert.ok(between.every((chunk) => chunk.choices[0].delta.content !== ''), 'no empty chunks between role and finish');
});
test('chat: include_usage ends the stream with usage and no choices', async () => {
  const chunks = await collect(await client.chat.completions.create({...greedy, messages: question, max_tokens: 8, ignore_eos: true, stream: true, stream_options: {include_usage: true}}));
  const last = chunks.at(-1);
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.completion_tokens, 8);
  assert.equal(last.usage.total_tokens, last.usage.prompt_tokens + 8);
  assert.ok(chunks.slice(0, -1).every((chunk) => chunk.choices.length === 1 && !chunk.usage));
});
test('chat: the package\'s own accumulator reads the stream', async () => {
  const whole = await client.chat.completions.create({...greedy, messages: question, max_tokens: 12});
  const streamed = await client.chat.completions.stream({...greedy, messages: question, max_tokens: 12}).finalChatCompletion();
  assert.equal(text(streamed), text(whole));
  assert.equal(streamed.choices[0].finish_reason, whole.choices[0].finish_reason);
});
test('chat: n = 2 gives two choices, whole and streamed', async () => {
  const body = {model, messages: question, n: 2, max_tokens: 8, seed: 5, temperature: 1};
  const whole = await client.chat.completions.create(body);
  assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1]);
  assert.ok(whole.usage.completion_tokens >= 2 && whole.usage.completion_tokens <= 16);
  const chunks = await collect(await client.chat.completions.create({...body, stream: true}));
  for (const index of [0, 1]) {
    const own = chunks.map((chunk) => chunk.choices[0]).filter((choice) => choice.index === index);
    assert.equal(own[0].delta.role, 'assistant');
    assert.equal(own.map((choice) => choice.delta.content ?? '').join(''), whole.choices[index].message.content);
    assert.equal(own.filter((choice) => choice.finish_reason).length, 1);
  }
});
test('chat: a stop string ends the answer before it, wherever tokens cut it', async () => {
  const body = {...greedy, messages: [{role: 'user', content: start}], max_tokens: 48, ignore_eos: true};
  const full = text(await client.chat.completions.create(body));
  assert.ok(full.length > 12, 'the model said something');
  for (const [from, length] of [[4, 5], [7, 3], [2, 8]]) {
    const stop = full.slice(from, from + length);
    const cut = await client.chat.completions.create({...body, stop: [stop, '\u0001never']});
    assert.equal(text(cut), full.slice(0, full.indexOf(stop)));
    assert.equal(cut.choices[0].finish_reason, 'stop');
    assert.equal(cut.choices[0].stop_reason, stop);
    const chunks = await collect(await client.chat.completions.create({...body, stop, stream: true}));
    assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''), text(cut), 'nothing of a stop string is streamed');
    assert.equal(chunks.at(-1).choices[0].finish_reason, 'stop');
  }
});
test('chat: max_tokens is kept to the token', async () => {
  for (const max_tokens of [1, 2, 17]) {
    const answer = await client.chat.completions.create({...greedy, messages: question, max_tokens, ignore_eos: true});
    assert.equal(answer.usage.completion_tokens, max_tokens);
    assert.equal(answer.choices[0].finish_reason, 'length');
  }
});
test('chat: log probabilities match the text and the greedy choice', async () => {
  const answer = await client.chat.completions.create({...greedy, messages: question, max_tokens: 8, ignore_eos: true, logprobs: true, top_logprobs: 5, skip_special_tokens: false});
  const content = answer.choices[0].logprobs.content;
  assert.equal(content.length, 8);
  const decoded = Buffer.from(content.flatMap((entry) => entry.bytes)).toString('utf8');
  assert.ok(decoded.startsWith(text(answer).replace(/\uFFFD+$/, '')), JSON.stringify([decoded, text(answer)]));
  for (const entry of content) {
    assert.ok(entry.logprob <= 0 && entry.logprob >= -9999);
    assert.equal(entry.top_logprobs.length, 5);
    assert.deepEqual(entry.top_logprobs[0].bytes, entry.bytes);
    for (let i = 1; i < 5; ++i) assert.ok(entry.top_logprobs[i - 1].logprob >= entry.top_logprobs[i].logprob);
  }
  const chunks = await collect(await client.chat.completions.create({...greedy, messages: question, max_tokens: 8, ignore_eos: true, logprobs: true, top_logprobs: 5, skip_special_tokens: false, stream: true}));
  assert.deepEqual(chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? []), content);
});
test('chat: a seed repeats its answer, and seeds differ', async () => {
  const ask = async (seed) => text(await client.chat.completions.create({model, messages: [{role: 'user', content: start}], seed, temperature: 1.5, max_tokens: 24, ignore_eos: true}));
  const answers = [];
  for (const seed of [1, 2, 3, 4]) answers.push(await ask(seed));
  assert.ok(new Set(answers).size > 1, 'four seeds, one answer');
  assert.equal(await ask(3), answers[2]);
  assert.equal(await ask(1), answers[0]);
});
test('chat: requests at the same time do not disturb each other', async () => {
  const ask = (i) => client.chat.completions.create({...greedy, messages: [{role: 'user', content: `The owl number ${i} holds ${i * 37}. What does it hold?`}], max_tokens: 12}).then(text);
  const numbers = [0, 1, 2, 3, 4, 5];
  const alone = [];
  for (const i of numbers) alone.push(await ask(i));
  assert.deepEqual(await Promise.all(numbers.map(ask)), alone);
});
test('chat: unknown fields and null fields are accepted', async () => {
  await client.chat.completions.create({...greedy, messages: question, max_tokens: 1, metadata: {a: 'b'}, store: false, stop: null, logit_bias: null, tools: [], response_format: {type: 'text'}});
});

// ---------------------------------------------------------------- completions
test('completions: a string', async () => {
  const answer = await client.completions.create({...greedy, prompt: start, max_tokens: 12});
  assert.match(answer.id, /^cmpl-/);
  assert.equal(answer.object, 'text_completion');
  assert.equal(typeof answer.choices[0].text, 'string');
  assert.equal(answer.choices[0].logprobs, null);
  assert.ok(answer.usage.completion_tokens <= 12);
});
test('completions: without max_tokens 16 are generated', async () => {
  const answer = await client.completions.create({...greedy, prompt: start, ignore_eos: true});
  assert.equal(answer.usage.completion_tokens, 16);
});
test('completions: a batch answers each prompt as if it were alone', async () => {
  const prompts = [start, 'The tall owl holds 12. The', 'Once'];
  const alone = [];
  for (const prompt of prompts) alone.push((await client.completions.create({...greedy, prompt, max_tokens: 10})).choices[0].text);
  const batch = await client.completions.create({...greedy, prompt: prompts, max_tokens: 10});
  assert.deepEqual(batch.choices.map((choice) => choice.index), [0, 1, 2]);
  assert.deepEqual(batch.choices.map((choice) => choice.text), alone);
});
test('completions: token ids are the text that they stand for', async () => {
  const response = await post('/tokenize', JSON.stringify({model, prompt: start}));
  assert.equal(response.status, 200);
  const {tokens, count, max_model_len} = await response.json();
  assert.equal(tokens.length, count);
  assert.equal(max_model_len, contextLength);
  const fromText = await client.completions.create({...greedy, prompt: start, max_tokens: 10});
  const fromIds = await client.completions.create({...greedy, prompt: tokens, max_tokens: 10});
  const fromLists = await client.completions.create({...greedy, prompt: [tokens, tokens], max_tokens: 10});
  assert.equal(fromIds.usage.prompt_tokens, count);
  assert.equal(fromIds.choices[0].text, fromText.choices[0].text);
  assert.deepEqual(fromLists.choices.map((choice) => choice.text), [fromText.choices[0].text, fromText.choices[0].text]);
  const back = await (await post('/detokenize', JSON.stringify({model, tokens}))).json();
  assert.ok(back.prompt.endsWith(start), back.prompt);
});
test('completions: a stream says what the whole answer says', async () => {
  const body = {...greedy, prompt: start, max_tokens: 20, ignore_eos: true};
  const whole = await client.completions.create(body);
  const chunks = await collect(await client.completions.create({...body, stream: true, stream_options: {include_usage: true}}));
  assert.ok(chunks.every((chunk) => chunk.object === 'text_completion'));
  assert.equal(chunks.flatMap((chunk) => chunk.choices).map((choice) => choice.text).join(''), whole.choices[0].text);
  assert.equal(chunks.at(-1).usage.completion_tokens, 20);
  assert.equal(chunks.at(-2).choices[0].finish_reason, 'length');
});
test('completions: echo puts the prompt in front', async () => {
  const plain = await client.completions.create({...greedy, prompt: start, max_tokens: 8});
  const echoed = await client.completions.create({...greedy, prompt: start, max_tokens: 8, echo: true});
  assert.equal(echoed.choices[0].text, start + plain.choices[0].text);
});
test('completions: log probabilities are parallel lists', async () => {
  const answer = await client.completions.create({...greedy, prompt: start, max_tokens: 6, ignore_eos: true, logprobs: 3});
  const {tokens, token_logprobs, top_logprobs, text_offset} = answer.choices[0].logprobs;
  for (const list of [tokens, token_logprobs, top_logprobs, text_offset]) assert.equal(list.length, 6);
  assert.equal(text_offset[0], 0);
  tokens.forEach((token, i) => {
    assert.ok(token_logprobs[i] <= 0);
    assert.equal(top_logprobs[i][token], token_logprobs[i]);
    assert.ok(Object.keys(top_logprobs[i]).length >= 1 && Object.keys(top_logprobs[i]).length <= 4);
    assert.ok(Object.values(top_logprobs[i]).every((value) => value <= token_logprobs[i]), 'greedy takes the likeliest');
  });
});

// ---------------------------------------------------------------- cache
test('cache: a long prompt that comes again is taken from the cache', async () => {
  const words = ['fox', 'owl', 'king', 'sailor', 'tower', 'river', 'candle', 'stone'];
  let prompt = `Trial ${Date.now()} of ${process.pid}.`;
  for (let i = 0; i < 120; ++i) prompt += ` The ${words[(i * 5 + (i >> 3)) % 8]} holds ${i * 7}.`;
  const messages = [{role: 'user', content: prompt}];
  const first = await client.chat.completions.create({...greedy, messages, max_tokens: 8});
  const length = first.usage.prompt_tokens;
  assert.ok(first.usage.prompt_tokens_details.cached_tokens < length / 2);
  // The blocks are offered to the cache when the sequence has ended, which may be after its answer has arrived.
  let again = first;
  for (let tries = 0; tries < 5 && again.usage.prompt_tokens_details.cached_tokens === (tries ? 0 : first.usage.prompt_tokens_details.cached_tokens); ++tries) {
    again = await client.chat.completions.create({...greedy, messages, max_tokens: 8});
  }
  const cached = again.usage.prompt_tokens_details.cached_tokens;
  assert.ok(cached >= length / 2 && cached < length, `${cached} of ${length}`);
  assert.equal(text(again), text(first), 'and the answer is the same');
});

// ---------------------------------------------------------------- errors
test('errors: an unknown model is NotFoundError', async () => {
  for (const error of [
    await rejection(client.chat.completions.create({model: 'no-such-model', messages: question})),
    await rejection(client.completions.create({model: 'no-such-model', prompt: start})),
    await rejection(client.models.retrieve('no-such-model'))]) {
    assert.ok(error instanceof NotFoundError, String(error));
    assert.match(error.message, /no-such-model/);
  }
});
test('errors: a prompt beyond the context is context_length_exceeded, with both numbers', async () => {
  const long = 'fox '.repeat(contextLength + 100);
  for (const error of [
    await rejection(client.chat.completions.create({model, messages: [{role: 'user', content: long}], max_tokens: 4})),
    await rejection(client.chat.completions.create({model, messages: [{role: 'user', content: long}], stream: true})),
    await rejection(client.completions.create({model, prompt: long}))]) {
    assert.ok(error instanceof BadRequestError, String(error));
    assert.equal(error.code, 'context_length_exceeded');
    assert.ok(error.message.replaceAll(',', '').includes(String(contextLength)), error.message);
  }
});
test('errors: a bad field is BadRequestError and names the field', async () => {
  const wrong = {temperature: -1, top_p: 0, max_tokens: 0, n: 0, top_k: 1.5, stop: '', presence_penalty: 3, logit_bias: {x: 1}, stream_options: {include_usage: true},
    response_format: {type: 'json_object'}, messages: []};
  for (const [field, value] of Object.entries(wrong)) {
    const error = await rejection(client.chat.completions.create({model, messages: question, [field]: value}));
    assert.ok(error instanceof BadRequestError, field + ': ' + error);
    assert.equal(error.type, 'invalid_request_error');
    assert.ok(error.param.startsWith(field), field + ': ' + error.param);
    assert.ok(error.message.includes(field), error.message);
  }
  const ids = await rejection(client.completions.create({model, prompt: [4_000_000_000], max_tokens: 1}));
  assert.ok(ids instanceof BadRequestError, 'a token id beyond the vocabulary: ' + ids);
  await client.chat.completions.create({...greedy, messages: question, max_tokens: 1});  // and nothing else is disturbed
});
test('errors: what is no JSON, a wrong method and an unknown path', async () => {
  const broken = await post('/v1/chat/completions', '{"messages": [');
  assert.equal(broken.status, 400);
  assert.match((await broken.json()).error.message, /JSON/);
  assert.equal((await fetch(root + '/v1/chat/completions', {headers: authorization})).status, 405);
  const unknown = await post('/v1/nothing', '{}');
  assert.equal(unknown.status, 404);
  assert.equal(typeof (await unknown.json()).error.message, 'string');
});
if (key) {
  test('errors: a wrong or missing key is AuthenticationError', async () => {
    const stranger = new OpenAI({...options, apiKey: key + 'x'});
    for (const promise of [stranger.models.list(), stranger.chat.completions.create({model, messages: question}), stranger.completions.create({model, prompt: start})]) {
      const error = await rejection(promise);
      assert.ok(error instanceof AuthenticationError, String(error));
    }
    assert.equal((await fetch(root + '/v1/models')).status, 401);
  });
}

// ---------------------------------------------------------------- leaving
test('abort: a stream that is left ends at the client and at the server', async () => {
  const before = await client.chat.completions.create({...greedy, messages: question, max_tokens: 8});
  const stream = await client.chat.completions.create({model, messages: question, temperature: 0, max_tokens: Math.floor(contextLength / 2), ignore_eos: true, stream: true});
  let seen = 0;
  for await (const chunk of stream) {
    seen += chunk.choices[0].delta.content ? 1 : 0;
    if (seen === 3) stream.controller.abort();
    assert.ok(seen < 1000, 'the stream goes on after it was left');
  }
  const controller = new AbortController();
  const early = client.chat.completions.create({model, messages: question, max_tokens: Math.floor(contextLength / 2), ignore_eos: true}, {signal: controller.signal});
  setImmediate(() => controller.abort());
  assert.ok(await rejection(early) instanceof APIUserAbortError);
  // The server lets go of both: its picture shows nothing running within a bounded number of looks.
  let left = -1;
  for (let looks = 0; looks < 200 && left !== 0; ++looks) {
    const response = await fetch(root + '/cluster', {headers: authorization});
    if (response.status === 404) break;  // a server without the picture cannot show it
    const {counters} = await response.json();
    left = counters.requests_running + counters.requests_waiting;
    if (left !== 0) await new Promise((resume) => setTimeout(resume, 50));
  }
  assert.ok(left <= 0, left + ' requests still run');
  const after = await client.chat.completions.create({...greedy, messages: question, max_tokens: 8});
  assert.equal(text(after), text(before));
});

let passed = 0;
let failed = 0;
for (const {name, run} of tests.filter((one) => one.name.includes(process.argv[2] || ''))) {
  const begun = performance.now();
  try {
    await run();
    passed += 1;
    console.log(`ok      ${name} (${Math.round(performance.now() - begun)} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n        ${String(error.stack || error).split('\n').slice(0, 12).join('\n        ')}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
