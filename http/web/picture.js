// ---------------------------------------------------------------- the picture
const kinds = {gateway: /gateway/, admission: /admission/, conductor: /conductor/, prefill: /prefill/, decode: /decode/, shard: /shard|cache/};
const titles = {gateway: "Gateway", admission: "Admission", conductor: "Conductor"};
const kindOf = (actor) => Object.keys(kinds).find((kind) => kinds[kind].test(actor.kind)) || "other";
const numberOf = (actor) => (/\d+$/.exec(actor.name) || [""])[0];
const gap = 12, cardHeight = 102, shardHeight = 90, topHeight = 50, maxCards = 6;

let narrow = false, gutter = 26;
let picture = null;  // {key, nodes by actor name, wires, …} of what is drawn now
let previous = null; // the last view, for differences
let latest = null;

function card(group, x, y, width, height) {
  const lamp = draw("circle", {class: "lamp", cx: x + 14, cy: y + 17, r: 4});
  group.append(draw("rect", {class: "card", x, y, width, height, rx: 12}), lamp);
}
function label(group, x, y, className, text) {
  const node = draw("text", {x, y, class: className});
  node.textContent = text || "";
  group.append(node);
  return node;
}
function tooltip(group, actor) {
  const title = draw("title");
  group.prepend(title);
  return title;
}
/** A row of small marks, one a request, as far as they fit: those that run, then those that wait. */
function marks(group, x, y, most) {
  const nodes = [];
  for (let i = 0; i < most; ++i) nodes.push(draw("rect", {x: x + i * 7, y, width: 5, height: 9, rx: 1.5}));
  group.append(...nodes);
  return (running, waiting) => nodes.forEach((node, i) => node.setAttribute("class", i < running ? "runs" : i < running + waiting ? "waits" : "none"));
}
function bar(group, x, y, width, height) {
  group.append(draw("rect", {class: "track", x, y, width, height, rx: height / 2}));
  const kept = draw("rect", {class: "kept", x, y, width: 0, height, rx: height / 2});
  const used = draw("rect", {class: "used", x, y, width: 0, height, rx: height / 2});
  group.append(kept, used);
  return (part, cached, whole) => {
    const scale = whole > 0 ? width / whole : 0;
    used.setAttribute("width", Math.min(width, part * scale));
    kept.setAttribute("width", Math.min(width, (part + cached) * scale));
  };
}
function statusOf(group, actor) {
  const down = ["down", "restarting", "failed"].includes(actor.state);
  group.classList.toggle("down", down);
  group.classList.toggle("idle", !down && !actor.running && !actor.queue && kindOf(actor) !== "shard");
}
function hint(title, actor) {
  title.textContent = actor.name + ": " + actor.state + (actor.device ? ", on " + actor.device : "") + "\nincarnation " + actor.incarnation + ", restarts " + actor.restarts;
}
function controlCard(actor, kind, x, y, width) {
  const group = draw("g");
  card(group, x, y, width, topHeight);
  label(group, x + (narrow ? 22 : 25), y + 21, "name", titles[kind]);
  const line = label(group, x + 14, y + 40, "small");
  const title = tooltip(group);
  return {group, x, y, width, height: topHeight, update(a) {
    const busy = kind === "gateway" ? count(a.running) + " open" : count(a.queue) + " waiting";
    line.textContent = a.state === "ready" || a.state === "busy" ? busy : a.state;
    statusOf(group, a);
    hint(title, a);
  }};
}
function workerCard(actor, kind, x, y, width) {
  const group = draw("g");
  card(group, x, y, width, cardHeight);
  label(group, x + 25, y + 21, "name", (kind === "prefill" ? "Prefill " : "Decode ") + numberOf(actor));
  const state = label(group, x + width - 12, y + 21, "small end");
  const speed = label(group, x + 14, y + 48, "rate");
  const unit = label(group, x + 14, y + 48, "small");
  const load = label(group, x + width - 12, y + 47, "small end");
  const most = Math.floor((width - 28) / 7);
  const queue = marks(group, x + 14, y + 55, most);
  const blocks = bar(group, x + 14, y + 71, width - 28, 7);
  const kv = label(group, x + 14, y + 92, "small");
  const free = label(group, x + width - 12, y + 92, "small end");
  const title = tooltip(group);
  return {group, x, y, width, height: cardHeight, update(a) {
    state.textContent = a.state === "ready" || a.state === "busy" ? (narrow ? "" : a.device) : a.state;
    speed.textContent = rate(a.tokens_per_second || 0);
    unit.textContent = narrow ? "tok/s" : "tokens/s";
    unit.setAttribute("x", x + 20 + speed.getComputedTextLength());
    queue(a.running, a.queue);
    load.textContent = width < 235 ? "" : count(a.queue) + " waiting, " + count(a.running) + " running";
    blocks(a.blocks_used, a.blocks_cached, a.blocks_total);
    kv.textContent = width < 200 ? "KV " + percent(a.blocks_used + a.blocks_cached, a.blocks_total) : count(a.blocks_used) + " used, " + count(a.blocks_cached) + " cached";
    free.textContent = (width < 200 ? "" : "of ") + count(a.blocks_total);
    statusOf(group, a);
    hint(title, a);
  }};
}
function shardCard(actor, tiers, x, y, width) {
  const group = draw("g");
  const height = shardHeight + Math.max(0, tiers.length - 1) * 46;
  card(group, x, y, width, height);
  label(group, x + 25, y + 21, "name", "Cache shard " + numberOf(actor));
  const state = label(group, x + width - 12, y + 21, "small end");
  const rows = tiers.map((tier, i) => ({
    hits: label(group, x + 14, y + 48 + i * 46, "rate"), what: label(group, x + 14, y + 48 + i * 46, "small"), size: label(group, x + width - 12, y + 48 + i * 46, "small end"),
    fill: bar(group, x + 14, y + 58 + i * 46, width - 28, 9), gone: i === tiers.length - 1 ? label(group, x + 14, y + 81 + i * 46, "small") : null}));
  const title = tooltip(group);
  return {group, x, y, width, height, update(a, view) {
    const own = view.tiers.filter((tier) => tier.owner === a.name);
    state.textContent = a.state !== "ready" ? a.state : a.blocks_total ? count(a.blocks_used + a.blocks_cached) + " blocks" : "";
    rows.forEach((row, i) => {
      const tier = own[i];
      if (!tier) return;
      const asked = tier.hit_tokens + tier.miss_tokens;
      row.hits.textContent = percent(tier.hit_tokens, asked);
      row.what.textContent = !asked ? "nothing looked up in " + tier.name + " yet" : width > 400 ? "of " + count(asked) + " tokens found in " + tier.name : "found in " + tier.name;
      row.what.setAttribute("x", x + 20 + row.hits.getComputedTextLength());
      row.size.textContent = bytes(tier.bytes_used) + (width > 400 ? " of " : " / ") + bytes(tier.bytes_limit);
      row.fill(0, tier.bytes_used, tier.bytes_limit);
      if (row.gone) row.gone.textContent = count(own.reduce((sum, one) => sum + one.evicted_blocks, 0)) + " blocks evicted";
    });
    statusOf(group, a);
    hint(title, a);
  }};
}

/** A polyline of right angles with round corners. */
function path(points) {
  let text = "M" + points[0].join(" ");
  for (let i = 1; i < points.length; ++i) {
    const [x, y] = points[i];
    const next = points[i + 1];
    if (!next) { text += "L" + x + " " + y; break; }
    const [px, py] = points[i - 1];
    const r = Math.min(8, Math.hypot(x - px, y - py) / 2, Math.hypot(next[0] - x, next[1] - y) / 2);
    const toward = ([tx, ty]) => { const d = Math.hypot(tx - x, ty - y) || 1; return (x + (tx - x) * r / d) + " " + (y + (ty - y) * r / d); };
    text += "L" + toward([px, py]) + "Q" + x + " " + y + " " + toward(next);
  }
  return text;
}
function wire(d, className) {
  const flow = draw("path", {class: "flow " + className, d});
  return {group: draw("g", {}, draw("path", {class: "wire", d}), flow), flow};
}

function build(view, width) {
  narrow = width < 480;
  gutter = narrow ? 20 : 26;
  $("picture").classList.toggle("narrow", narrow);
  const by = {gateway: [], admission: [], conductor: [], prefill: [], decode: [], shard: [], other: []};
  for (const actor of view.actors) by[kindOf(actor)].push(actor);
  const made = {nodes: {}, flows: [], tags: [], actors: by};
  const wires = draw("g"), cards = draw("g"), tags = draw("g");
  const place = (actor, node) => { made.nodes[actor.name] = node; cards.append(node.group); return node; };

  const top = 20, controls = ["gateway", "admission", "conductor"].filter((kind) => by[kind].length);
  const controlGap = narrow ? 10 : 40;
  const controlWidth = (width - 2 * gutter - controlGap * (controls.length - 1)) / Math.max(1, controls.length);
  const control = {};
  controls.forEach((kind, i) => { control[kind] = place(by[kind][0], controlCard(by[kind][0], kind, gutter + i * (controlWidth + controlGap), top, controlWidth)); });
  const add = (points, className, isOn) => {
    const made_wire = wire(typeof points === "string" ? points : path(points), className);
    wires.append(made_wire.group);
    made.flows.push({flow: made_wire.flow, isOn});
  };
  const asked = (now, before) => Boolean(before) && (now.counters.prompt_tokens > before.counters.prompt_tokens || now.counters.requests_waiting > 0);
  for (let i = 0; i + 1 < controls.length; ++i) {
    const from = control[controls[i]], to = control[controls[i + 1]];
    add([[from.x + from.width, top + topHeight / 2], [to.x, top + topHeight / 2]], "ask", asked);
  }

  const between = narrow ? 34 : width < 620 ? 64 : 96;
  const workerWidth = (width - 2 * gutter - between) / 2;
  const first = top + topHeight + 44;
  const column = (kind, x) => by[kind].slice(0, maxCards).map((actor, i) => place(actor, workerCard(actor, kind, x, first + i * (cardHeight + gap), workerWidth)));
  const prefill = column("prefill", gutter), decode = column("decode", gutter + workerWidth + between);
  const rows = Math.max(prefill.length, decode.length);
  let y = first + rows * (cardHeight + gap);
  for (const [kind, x] of [["prefill", gutter], ["decode", gutter + workerWidth + between]]) {
    if (by[kind].length > maxCards) label(cards, x + 14, y + 6, "small", "and " + (by[kind].length - maxCards) + " more (table below)");
  }
  if (rows && Math.max(by.prefill.length, by.decode.length) > maxCards) y += 20;

  // Cache shards, in as many columns as fit.
  const shardTop = y + 22, perRow = Math.max(1, Math.min(by.shard.length, Math.floor((width - 2 * gutter) / 250)));
  const shardWidth = (width - 2 * gutter - gap * (perRow - 1)) / perRow;
  let shardBottom = shardTop - 22;
  by.shard.slice(0, maxCards).forEach((actor, i) => {
    const tiers = view.tiers.filter((tier) => tier.owner === actor.name);
    const at = shardTop + Math.floor(i / perRow) * (shardHeight + gap);
    const node = place(actor, shardCard(actor, tiers, gutter + (i % perRow) * (shardWidth + gap), at, shardWidth));
    shardBottom = Math.max(shardBottom, at + node.height);
  });

  // Control wires run outside, KV wires inside. Wires that share a stretch are drawn from the shared end, so that their
  // dashes coincide there; "back" runs them the other way.
  const inner = narrow ? 13 : 16;
  if (control.conductor) {
    const c = control.conductor, down = top + topHeight + 14;
    for (const p of prefill) add([[c.x + c.width / 2, top + topHeight], [c.x + c.width / 2, down], [6, down], [6, p.y + 24], [p.x, p.y + 24]], "ask", asked);
  }
  const sum = (links, test) => links.filter(test).reduce((total, link) => total + link.bytes, 0);
  const moved = (test) => (now, before) => before ? sum(now.links, test) - sum(before.links, test) : 0;
  const isNode = (name, kind) => by[kind].some((actor) => actor.name === name);
  if (control.gateway) {
    const g = control.gateway;
    for (const d of decode) add([[g.x + g.width / 2, top], [g.x + g.width / 2, 6], [width - 6, 6], [width - 6, d.y + 24], [d.x + d.width, d.y + 24]], "token back",
      (now, before) => Boolean(before) && now.counters.generated_tokens > before.counters.generated_tokens);
  }
  for (const p of by.prefill.slice(0, maxCards)) for (const d of by.decode.slice(0, maxCards)) {
    const a = made.nodes[p.name], b = made.nodes[d.name], x1 = a.x + a.width, x2 = b.x, y1 = a.y + a.height / 2, y2 = b.y + b.height / 2, middle = (x1 + x2) / 2;
    const bytesMoved = moved((link) => link.from === p.name && link.to === d.name);
    add("M" + x1 + " " + y1 + "C" + middle + " " + y1 + " " + middle + " " + y2 + " " + x2 + " " + y2, "kv", (now, before) => now.links.length ? bytesMoved(now, before) > 0
      : Boolean(before) && now.counters.transfer_bytes > before.counters.transfer_bytes);
  }
  if (by.shard.length) {
    for (const p of prefill) {
      const name = by.prefill[prefill.indexOf(p)].name;
      const lane = gutter + shardWidth / 2 > 200 ? 60 : 40;
      add([[gutter + lane, shardTop], [gutter + lane, shardTop - 14], [inner, shardTop - 14], [inner, p.y + p.height - 26], [p.x, p.y + p.height - 26]], "kv", (now, before) => moved((link) => link.to === name && isNode(link.from, "shard"))(now, before) > 0);
    }
    for (const d of decode) {
      const name = by.decode[decode.indexOf(d)].name;
      add([[width - gutter - 60, shardTop], [width - gutter - 60, shardTop - 14], [width - inner, shardTop - 14], [width - inner, d.y + d.height - 26], [d.x + d.width, d.y + d.height - 26]], "kv back", (now, before) => moved((link) => link.from === name && isNode(link.to, "shard"))(now, before) > 0);
    }
  }
  const tag = (x, y, measure) => {
    const text = draw("text", {x, y: y + 4}), box = draw("rect", {y: y - 9, height: 18, rx: 9});
    const group = draw("g", {class: "tag"}, box, text);
    tags.append(group);
    made.tags.push({update(now, before, seconds) {
      const perSecond = seconds > 0 ? measure(now, before) / seconds : 0;
      group.classList.toggle("on", perSecond > 0);
      if (perSecond <= 0) return;
      text.textContent = bytes(Math.round(perSecond)) + "/s";
      const w = text.getComputedTextLength() + 14;
      set(box, {x: x - w / 2, width: w});
    }});
  };
  if (prefill.length && decode.length && !narrow) {
    tag(gutter + workerWidth + between / 2, first - 12, (now, before) => before ? now.counters.transfer_bytes - before.counters.transfer_bytes : 0);
  }
  const height = shardBottom + 6;
  set($("picture"), {viewBox: "0 0 " + width + " " + height, height});
  $("picture").replaceChildren(wires, cards, tags);
  return made;
}

function refreshPicture() {
  if (!latest) return;
  const width = Math.floor($("picture").clientWidth);
  if (width < 200) return;  // its tab is not shown
  const key = JSON.stringify([width, latest.actors.map((a) => [a.name, a.kind]), latest.tiers.map((t) => [t.name, t.owner])]);
  if (!picture || picture.key !== key) { picture = build(latest, width); picture.key = key; }
  for (const actor of latest.actors) if (picture.nodes[actor.name]) picture.nodes[actor.name].update(actor, latest);
  for (const {flow, isOn} of picture.flows) flow.classList.toggle("on", Boolean(isOn(latest, previous)));
  const seconds = previous ? latest.at - previous.at : 0;
  for (const one of picture.tags) one.update(latest, previous, seconds);
  const c = latest.counters;
  $("picture").setAttribute("aria-label", "Cluster: " + latest.actors.map((a) => a.name + " " + a.state).join(", ") + "; " + c.requests_running + " requests running, " + c.requests_waiting + " waiting.");
}

