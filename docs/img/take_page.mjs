// Takes the picture of the page for the README, from a running server, after two questions about one text:
//   node docs/img/take_page.mjs http://127.0.0.1:8000/ docs/img/page.png [CHROMIUM]
import fs from 'node:fs';

import {Browser} from '../../tests/http/page/browser.mjs';

const [url, out, chromium = '/usr/bin/chromium'] = process.argv.slice(2);
const browser = new Browser(chromium);
try {
  const page = await browser.open(url, {width: 1360, height: 840});
  await page.until('document.querySelectorAll(".idea").length > 1', 'the page offers questions');
  // Other clients, so that the cluster has something to show. They are cut off at the end.
  const others = new AbortController();
  const ask = (seed) => fetch(url + 'v1/completions', {method: 'POST', signal: others.signal,
    body: JSON.stringify({prompt: 'It was a dark evening, and the captain of number ' + seed, seed, max_tokens: 1500, ignore_eos: true})})
    .then((answer) => answer.text()).then(() => ask(seed + 10)).catch(() => {});
  for (let seed = 0; seed < 5; ++seed) ask(seed);
  await page.value('document.getElementById("max-tokens").value = 14');
  for (const idea of [0, 1]) {
    await page.value(`document.querySelectorAll(".idea")[${idea}].click()`);
    await page.enter();
    await page.until('document.getElementById("send").textContent === "Stop"', 'the question is asked');
    await page.until('document.getElementById("send").textContent === "Send"', 'the question is answered');
  }
  await new Promise((resume) => setTimeout(resume, 3000));  // until the picture shows what was done
  const {data} = await page.send('Page.captureScreenshot', {format: 'png'});
  others.abort();
  fs.writeFileSync(out, Buffer.from(data, 'base64'));
} finally {
  await browser.close();
}
