// Writes to stdout, as JSON, what @lenml/tokenizers and @huggingface/jinja make of many texts and conversations.
// Run by scripts/fetch_test_tokenizers.sh inside the folder that has those packages.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TokenizerLoader } from "@lenml/tokenizers";
import { Template } from "@huggingface/jinja";

const folder = process.argv[2];

// Not here: U+0085 and U+FEFF, which JavaScript and the real tokenizers differ about (White_Space is only the first).
const fragments = [
  "Hello, world!", "The quick brown fox jumps over the lazy dog.", "I'm you're he'll they've we'd it's don't",
  "I'M YOU'RE HE'LL THEY'VE WE'D IT'S DON'T", "'s 't 're 've 'm 'll 'd 'x", "naïve café résumé coöperate",
  "cafe\u0301 re\u0301sume\u0301 A\u030a \u1e9b\u0323", "q\u0307\u0323 q\u0323\u0307 a\u0315\u0300\u05ae\u0062",
  "Ångström Å \u212b \u2126", "1234567890", "3.14159 1,000,000 0x1F 1e-9 ½ Ⅷ ² ① ٣٤٥ 一二三",
  "你好，世界！今天天气很好。", "日本語のテキストです。カタカナとひらがな", "안녕하세요 세계", "\u1112\u1161\u11ab\u1100\u1173\u11af",
  "Привет, мир! Съешь ещё этих мягких французских булок", "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم",
  "नमस्ते दुनिया", "สวัสดีชาวโลก", "வணக்கம் உலகம்", "გამარჯობა მსოფლიო", "Բարեւ աշխարհ", "ሰላም ዓለም", "សួស្តី​ពិភពលោក",
  "Xin chào thế giới, tiếng Việt có nhiều dấu", "😀😃😄 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷", "❤️ ☃ ★ ♫ → ∞ ≠ ∑ √",
  "int main() {\n  return 0;\n}\n", "def f(x):\n\treturn x ** 2  # square\n\n\n", "for (let i = 0; i < n; ++i) { a[i] += b[i]; }",
  "<html>\n  <body class=\"x\">&nbsp;</body>\n</html>", "SELECT * FROM t WHERE a='b' AND c<>1;", "{\"a\": [1, 2.5, null], \"b\": {}}",
  "https://example.com/path?q=1&r=2#frag", "user.name+tag@example.co.uk", "C:\\Users\\x\\file.txt", "```python\nprint('hi')\n```",
  " leading", "trailing ", "  two leading", "two trailing  ", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\t", "\t\t", "\r\n", "\r\n\r\n",
  " \n", "\n ", "  \n  \n  ", "a  b   c    d", "a\n b\n  c\n   d", "a \n b", "tab\tseparated\tvalues", "\u00a0nbsp\u00a0", "\u3000全角\u3000空白",
  "\u2028line\u2029para", "zero\u200bwidth\u200djoin", "soft\u00adhyphen", "a\u0000b", "\u0001\u0002\u001f\u007f",
  "!!!???...---___***", "((([[[{{{}}}]]])))", "a.b.c", "...and", "--flag=value", "$100 €50 £20 ¥1000 ₿", "50% off!!", "#hashtag @mention",
  "CamelCaseWord snake_case_word kebab-case-word SCREAMING_CASE", "ABCdefGHI", "iPhone15Pro", "x2y3z4", "McDonald's O'Brien's rock'n'roll",
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ababababababababababababababababababababab",
  "supercalifragilisticexpialidocious antidisestablishmentarianism", "\u{1d573}\u{1d58a}\u{1d591}\u{1d591}\u{1d594}", "ﬁ ﬂ ﬃ Ｆｕｌｌ",
  "▁", "▁a", "a▁b", "▁▁", "<0x0A>", "<0x41>", "<unk>", "Ġhello Ċ", "'ſ", "İstanbul ıI", "ß ẞ ǅ", "𐍈𐌰𐌿", "\u0301a", "e\u0301\u0301\u0301",
  "<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|>", "a<|im_end|>b", "<|im_end", "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>",
  "<s>[INST] hi [/INST] there </s>", "</s>", "a </s> b", "<s><s>", "<think>\nhm\n</think>\n\n", "<tool_call>x</tool_call>", "<bos><start_of_turn>user\n",
  "<｜User｜>hi<｜Assistant｜>",
];

// The same on every run (Park and Miller's generator).
let state = 20240817;
const random = (n) => {
  state = (state * 48271) % 2147483647;
  return state % n;
};
const joints = ["", " ", "  ", "\n", "\n\n", "\t", ", ", ".", "   ", " \n"];
const texts = ["", ...fragments];
for (let i = 0; i < 300; ++i) {
  let text = "";
  const count = 2 + random(4);
  for (let k = 0; k < count; ++k) {
    const fragment = [...fragments[random(fragments.length)]];
    const begin = random(fragment.length);
    text += fragment.slice(begin, begin + 1 + random(fragment.length)).join("") + joints[random(joints.length)];
  }
  texts.push(text);
}

const packages = ["qwen3", "llama3", "llama3_1", "llama2", "gpt4o", "gemma3", "deepseek_v3"];
const tokenizers = packages.map((name) => {
  const models = join(folder, "node_modules/@lenml/tokenizer-" + name, "models");
  const tokenizerJSON = JSON.parse(readFileSync(join(models, "tokenizer.json"), "utf8"));
  const tokenizerConfig = JSON.parse(readFileSync(join(models, "tokenizer_config.json"), "utf8"));
  const tokenizer = TokenizerLoader.fromPreTrained({ tokenizerJSON, tokenizerConfig });
  const cases = texts.map((text) => {
    const ids = tokenizer.encode(text, { add_special_tokens: false });
    const how = { skip_special_tokens: false, clean_up_tokenization_spaces: false };
    const decoded = ids.length > 0 ? tokenizer.decode(ids, how) : "";
    let framed = tokenizer.encode(text);
    // transformers' Llama classes obey add_bos_token; @lenml/tokenizers has only the post-processor.
    if (tokenizerConfig.add_bos_token && framed[0] !== tokenizer.bos_token_id) framed = [tokenizer.bos_token_id, ...framed];
    return { text, ids, framed, decoded };
  });
  return { name, models, cases };
});

const system = { role: "system", content: "You are terse." };
const user = (content) => ({ role: "user", content });
const assistant = (content) => ({ role: "assistant", content });
const conversations = [
  [user("Hello")],
  [system, user("Hello")],
  [user("  Hi there \n"), assistant(" Good day. "), user("And?\n")],
  [system, user("One"), assistant("Two"), user("Three"), assistant("Four"), user("Five")],
  [user("Q"), assistant("A")],
  [user("What is 2+2?"), assistant("<think>\nsimple\n</think>\n\n4"), user("And 3+3?")],
  [user("What is 2+2?"), assistant("<think>\nsimple\n</think>\n\n4")],
  [user("a"), user("b")],
  [assistant("I begin"), user("b")],
  [user("a"), system, user("b")],
  [system, system, user("b")],
  [user("Weather?"), assistant("Let me see."), { role: "tool", content: "{\"t\": 20}" }, { role: "tool", content: "sunny" }],
  [user("x"), { role: "developer", content: "be nice" }],
  [system],
  [user("Ünïcödé 你好 <b>&amp;</b> 'quotes' \"double\" \\ back")],
];
const options = [
  { add_generation_prompt: true },
  { add_generation_prompt: false },
  { add_generation_prompt: true, enable_thinking: false },
];

const bundle = readFileSync(join(folder, "node_modules/@huggingface/ollama-utils/dist/index.mjs"), "utf8");
writeFileSync(join(folder, "ollama_templates.mjs"), bundle + "\nexport { OLLAMA_CHAT_TEMPLATE_MAPPING };\n");
const { OLLAMA_CHAT_TEMPLATE_MAPPING } = await import(join(folder, "ollama_templates.mjs"));
const named = OLLAMA_CHAT_TEMPLATE_MAPPING.map((entry) => ({ name: entry.model, text: entry.gguf }));
for (const { name, models } of tokenizers) {
  const config = JSON.parse(readFileSync(join(models, "tokenizer_config.json"), "utf8"));
  if (typeof config.chat_template === "string") named.push({ name, text: config.chat_template });
}
const templates = named.map(({ name, text }) => {
  const cases = [];
  let template = null;
  try {
    template = new Template(text);
  } catch (error) {
    return { name, text, refused: String(error.message), cases };
  }
  for (const [conversation, messages] of conversations.entries()) {
    for (const option of options) {
      const entry = { conversation, options: option };
      try {
        entry.text = template.render({ messages, bos_token: "<s>", eos_token: "</s>", tools: null, documents: null, ...option });
      } catch (error) {
        entry.error = String(error.message);
      }
      cases.push(entry);
    }
  }
  return { name, text, cases };
});
const now = new Date();
const today = [now.getFullYear(), now.getMonth() + 1, now.getDate()];  // for strftime_now, which tells the real date
process.stdout.write(JSON.stringify({ tokenizers, conversations, templates, today }));
