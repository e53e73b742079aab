// ---------------------------------------------------------------- small helpers
// Text from the model or the server reaches the page as text nodes only.
const $ = (id) => document.getElementById(id);
function make(tag, properties, ...children) {
  const node = document.createElement(tag);
  Object.assign(node, properties);
  node.append(...children);
  return node;
}
function draw(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
function set(node, attributes) { for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value); }
const round = (value, digits) => Number(value.toFixed(digits)).toLocaleString("en");
const count = (n) => n < 1e5 ? n.toLocaleString("en") : n < 1e6 ? round(n / 1e3, 0) + "k" : n < 1e9 ? round(n / 1e6, 1) + "M" : round(n / 1e9, 1) + "G";
const milliseconds = (ms) => ms < 10 ? round(ms, 1) + " ms" : ms < 1000 ? round(ms, 0) + " ms" : round(ms / 1000, 2) + " s";
const bytes = (n) => n < 1e3 ? n + " B" : n < 1e6 ? round(n / 1e3, 0) + " kB" : n < 1e9 ? round(n / 1e6, n < 1e7 ? 1 : 0) + " MB" : round(n / 1e9, 2) + " GB";
const rate = (n) => n < 100 ? round(n, 1) : count(Math.round(n));
const percent = (part, whole) => whole > 0 ? Math.round(100 * part / whole) + " %" : "–";
function duration(seconds) {
  const s = Math.floor(seconds), days = Math.floor(s / 86400), hours = Math.floor(s / 3600) % 24, minutes = Math.floor(s / 60) % 60;
  return days ? days + " d " + hours + " h" : hours ? hours + " h " + minutes + " min" : minutes ? minutes + " min" : s + " s";
}
let apiKey = "";
const headers = (more) => Object.assign({}, more, apiKey ? {Authorization: "Bearer " + apiKey} : {});
function askForKey() {
  $("key-row").classList.remove("hidden");
}

