// The page at / in headless Chromium, against the real server:
//   node tests/serve/page_test.mjs build/release/yolk /usr/bin/chromium
// Prints "N passed, N failed"; exits with 1 on a failure.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';

import {Browser} from '../http/page/browser.mjs';

const limit = 60_000;
const server = spawn(process.argv[2], ['serve', '--port', '0', '--prefill-workers', '2'], {stdio: ['ignore', 'pipe', 'inherit']});
const ended = new Promise((resolve) => server.on('exit', (code, signal) => resolve({code, signal})));
const url = await new Promise((resolve, reject) => {
  let shown = '';
  server.stdout.on('data', (data) => {
    shown += data;
    const found = /serving +(http:\S+)/.exec(shown);
    if (found) resolve(found[1]);
  });
  ended.then(() => reject(new Error('the server ended: ' + shown)));
});

const browser = new Browser(process.argv[3]);
let passed = 0, failed = 0;
async function test(name, run) {
  let page;
  try {
    page = await browser.open(url + '/');
    await run(page);
    assert.deepEqual(page.complaints, [], 'the browser complains');
    console.log('ok     ', name);
    passed += 1;
  } catch (error) {
    console.log('FAILED ', name, '\n', error);
    failed += 1;
  }
  await page?.close().catch(() => {});  // the test may have closed it
}
const idle = 'document.getElementById("send").textContent === "Send"';
const answer = '[...document.querySelectorAll("#log .assistant .text")].at(-1)';
async function ask(page, text) {
  await page.value('document.getElementById("prompt").focus()');
  await page.type(text);
  await page.enter();
}

await test('an answer of the real model streams in', async (page) => {
  // What the page shows grows: at least two lengths are seen before it is whole.
  await page.value(`window.seen = new Set(); window.looking = setInterval(() => ${answer} && seen.add(${answer}.textContent.length), 0)`);
  await ask(page, 'The red fox holds 4821. What does the red fox hold?');
  await page.until(`${answer} && ${answer}.textContent.length > 0 && ${idle}`, 'an answer', limit);
  const text = await page.value(`${answer}.textContent`);
  assert.ok(text.trim().length > 3, text);
  assert.ok(await page.value('seen.size') >= 2, 'the answer came in one piece');
});

await test('the picture shows the workers, and what went through them', async (page) => {
  await ask(page, 'Hello');
  await page.until(`${answer} && ${answer}.textContent.length > 0 && ${idle}`, 'an answer', limit);
  await page.value('document.getElementById("tab-cluster").click()');
  const shown = 'document.getElementById("picture").textContent.toLowerCase()';
  await page.until(`/prefill/.test(${shown}) && /decode/.test(${shown}) && /cache/.test(${shown})`, 'the actors', limit);
  const rows = await page.value('[...document.querySelectorAll("#table-body tr")].map((row) => row.textContent)');
  for (const name of ['prefill_worker 0', 'prefill_worker 1', 'decode_worker 2', 'cache_shard', 'conductor', 'admission', 'gateway'])
    assert.ok(rows.some((row) => row.replaceAll('_', ' ').includes(name.replaceAll('_', ' '))), name + ' is not among ' + rows);
  await page.until('document.getElementById("what").textContent.includes("builtin")', 'the model is named', limit);
});

await test('an answer that is stopped ends on the server, too', async (page) => {
  await ask(page, 'Tell me a very long story about a ship and the sea.');
  await page.until(`${answer} && ${answer}.textContent.length > 0`, 'the answer begins', limit);
  await page.close();
  const end = Date.now() + limit;
  while (!/yolk_requests_running{[^}]*} 0\n/.test(await (await fetch(url + '/metrics')).text())) assert.ok(Date.now() < end, 'still runs');
});

await browser.close();
server.kill('SIGTERM');
const {code} = await ended;
if (code !== 0) console.log(`FAILED  the server ended with ${code}`, failed += 1);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
