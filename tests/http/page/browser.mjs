// Headless Chromium over its debugging pipe: no package needed. One browser, one page at a time.
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--remote-debugging-pipe'];

export class Browser {
  constructor(program) {
    this.profile = fs.mkdtempSync(path.join(os.tmpdir(), 'yolk-page-'));
    this.process = spawn(program, [...flags, '--user-data-dir=' + this.profile], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
    this.pending = new Map();
    this.listeners = [];
    this.last = 0;
    let rest = '';
    this.process.stdio[4].on('data', (data) => {
      const messages = (rest + data).split('\0');
      rest = messages.pop();
      for (const message of messages) this.receive(JSON.parse(message));
    });
    this.process.on('exit', () => this.pending.forEach(({reject}) => reject(new Error('Chromium ended'))));
  }
  receive(message) {
    const waiting = this.pending.get(message.id);
    if (!waiting) return this.listeners.forEach((listener) => listener(message));
    this.pending.delete(message.id);
    message.error ? waiting.reject(new Error(message.error.message)) : waiting.resolve(message.result);
  }
  send(method, params = {}, sessionId = undefined) {
    const id = ++this.last;
    this.process.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + '\0');
    return new Promise((resolve, reject) => this.pending.set(id, {resolve, reject}));
  }
  async open(url, {width = 1280, height = 900, dark = false} = {}) {
    const {targetId} = await this.send('Target.createTarget', {url: 'about:blank'});
    const {sessionId} = await this.send('Target.attachToTarget', {targetId, flatten: true});
    const page = new Page(this, targetId, sessionId);
    for (const domain of ['Page', 'Runtime', 'Log']) await page.send(domain + '.enable');
    await page.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: false});
    await page.send('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]});
    await page.send('Page.navigate', {url});
    await page.until('document.readyState === "complete"', 'the page is loaded');
    return page;
  }
  async close() {
    const ended = new Promise((resolve) => this.process.on('exit', resolve));
    await this.send('Browser.close').catch(() => {});
    await ended;
    fs.rmSync(this.profile, {recursive: true, force: true, maxRetries: 5});
  }
}

class Page {
  constructor(browser, targetId, sessionId) {
    Object.assign(this, {browser, targetId, sessionId, complaints: []});
    browser.listeners.push((message) => {
      if (message.sessionId !== sessionId) return;
      if (message.method === 'Runtime.exceptionThrown') this.complaints.push(JSON.stringify(message.params.exceptionDetails).slice(0, 400));
      // A refused request is logged as an error too; those the tests cause on purpose.
      const entry = message.method === 'Log.entryAdded' && message.params.entry;
      if (entry && entry.level === 'error' && entry.source !== 'network') this.complaints.push(entry.text);
    });
  }
  send(method, params) { return this.browser.send(method, params, this.sessionId); }
  async value(expression) {
    const {result, exceptionDetails} = await this.send('Runtime.evaluate', {expression, awaitPromise: true, returnByValue: true});
    if (exceptionDetails) throw new Error(expression + ': ' + (exceptionDetails.exception?.description || exceptionDetails.text));
    return result.value;
  }
  /** Looks until the expression is true, for at most `limit` milliseconds. */
  async until(expression, what, limit = 15_000) {
    const end = Date.now() + limit;
    while (!await this.value(expression)) {
      if (Date.now() > end) throw new Error('never: ' + (what || expression));
      await new Promise((resume) => setTimeout(resume, 20));
    }
  }
  async press(key, code = key, text = undefined) {
    const numbers = {Enter: 13, Escape: 27, Tab: 9, ArrowRight: 39, ArrowLeft: 37};
    const event = {key, code, text, windowsVirtualKeyCode: numbers[key]};
    await this.send('Input.dispatchKeyEvent', {type: 'keyDown', ...event});
    await this.send('Input.dispatchKeyEvent', {type: 'keyUp', ...event});
  }
  enter() { return this.press('Enter', 'Enter', '\r'); }
  type(text) { return this.send('Input.insertText', {text}); }
  close() { return this.browser.send('Target.closeTarget', {targetId: this.targetId}); }
}
