// Writes what other implementations of GPT-2's tokenizer say, one JSON object a line:
//   {"classes": "LNSO..."}                   the class of every code point, by JavaScript's regular expressions
//   {"text": "...", "tokens": [1, 2, ...]}   varied texts, encoded
// node bpe_reference.js GPT_3_ENCODER GPT_TOKENIZER COUNT SEED > cases.jsonl
// Both packages must agree on a text or it is left out, and their number is written to stderr:
// gpt-3-encoder keys its merges by "left,right", which is ambiguous around commas.
'use strict';
const path = require('path');
const [gpt3, gptTokenizer, countText, seedText] = process.argv.slice(2);
const first = require(path.resolve(gpt3));
const second = require(path.resolve(gptTokenizer, 'cjs/encoding/gpt2.js'));

let state = BigInt(seedText);
const mask = (1n << 64n) - 1n;
function next() {  // SplitMix64
  state = (state + 0x9e3779b97f4a7c15n) & mask;
  let z = state;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
  return z ^ (z >> 31n);
}
const below = (n) => Number(next() % BigInt(n));
const pick = (list) => list[below(list.length)];
const repeat = (n, make) => Array.from({length: n}, make).join('');

// Blocks that have been in Unicode for long: the two sides know different versions of it.
const blocks = {
  latin: [0xc0, 0x24f], greek: [0x391, 0x3a1], cyrillic: [0x400, 0x45f], hebrew: [0x5d0, 0x5ea],
  arabic: [0x620, 0x64a], arabicDigits: [0x660, 0x669], devanagari: [0x904, 0x939],
  devanagariMarks: [0x93e, 0x94d], thai: [0xe01, 0xe3a], hangul: [0xac00, 0xd7a3],
  kana: [0x3041, 0x30ff], han: [0x4e00, 0x9fa5], combining: [0x300, 0x36f],
  punctuation: [0x2010, 0x2027], superscripts: [0x2070, 0x2071], fractions: [0x2150, 0x215f],
  roman: [0x2160, 0x2188], arrows: [0x2190, 0x21ff], mathematics: [0x2200, 0x22ff],
  circled: [0x2460, 0x249b], dingbats: [0x2701, 0x27bf], emoji: [0x1f600, 0x1f64f],
  symbols: [0x1f300, 0x1f5ff], skin: [0x1f3fb, 0x1f3ff], flags: [0x1f1e6, 0x1f1ff],
  hanB: [0x20000, 0x2a6d6], gothic: [0x10330, 0x1034a], mathLetters: [0x1d400, 0x1d454],
  privateUse: [0xe000, 0xe0ff], selectors: [0xfe00, 0xfe0f], control: [0x00, 0x1f],
};
const fromBlock = (name) => {
  const [low, high] = blocks[name];
  return String.fromCodePoint(low + below(high - low + 1));
};
const spaces = [' ', '  ', '   ', '\n', '\n\n', '\t', '\r\n', '\u00a0', '\u3000', '\u2003', '\u2028', ' \n ',
                '\v', '\f', '\u1680', '        '];
const words = ('the of and to in is that for it with as was on be by this are from or an but not have which ' +
  'one all their norm ball gradient clipping Frank Wolfe Scion optimizer UNITED States New York 2024 ' +
  'tokenization antidisestablishmentarianism supercalifragilistic I you he we they don can won').split(' ');
const contractions = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "''s", "' s", "’s", "'sure", "'mine"];
const code = ['def f(x):\n    return x**2\n', 'for (int i = 0; i < n; ++i) {', '#include <vector>', '}\n\n\n}', 'a->b',
  '0xdeadbeef', '// TODO', '"\\n"', 'x != y && !z', '<div class="a">', '$ git log --oneline', 'λx.x', '[[1, 2], [3]]',
  '====', '----', '~/.cache/', 'SELECT * FROM t;', '1e-7', '<|endoftext|>', ',,,', ', ,', ',,'];
const ascii = () => String.fromCharCode(32 + below(95));
const number = () => pick([String(below(10)), String(below(1e6)), below(1e9) + '.' + below(1e6), '1,234,567',
  '2024-05-20', '0'.repeat(1 + below(9)), below(100) + '%']);
const anyBlock = () => fromBlock(pick(Object.keys(blocks)));
const sameBlock = () => { const name = pick(Object.keys(blocks)); return repeat(1 + below(12), () => fromBlock(name)); };
// Random bytes, read as UTF-8 with U+FFFD for what is none.
const bytes = () => new TextDecoder('utf-8', {ignoreBOM: true}).decode(
  Uint8Array.from({length: 1 + below(24)}, () => below(256)));
const zwj = () => pick(['👩‍💻', '👨‍👩‍👧‍👦', '🏳️‍🌈', '👍🏽', 'e\u0301', 'n\u0303o', 'क्षि', '각', '1️⃣']);

const kinds = [
  () => repeat(1 + below(20), () => pick(words) + pick([' ', ' ', ' ', ', ', '. ', '\n', pick(contractions) + ' '])),
  () => repeat(1 + below(40), ascii),
  () => repeat(1 + below(10), () => pick(code) + pick([' ', '\n', ''])),
  () => repeat(1 + below(12), anyBlock),
  () => repeat(1 + below(5), () => sameBlock() + pick(['', pick(spaces)])),
  () => repeat(1 + below(10), () => pick([() => pick(spaces), () => pick(words), number])()),
  () => repeat(1 + below(8), () => number() + pick(['', ' ', pick(spaces), pick(contractions)])),
  () => repeat(1 + below(4), bytes),
  () => repeat(1 + below(8), () => pick([zwj, anyBlock, () => pick(words), () => pick(contractions)])()),
  () => repeat(1 + below(14), () => pick(contractions) + pick(['', ' ', pick(words)])),
  () => pick([' ', 'a', 'ab', '-', '\n', 'é', '中', '=', 'ha', '0', '😀']).repeat(1 + below(150)),
  () => repeat(1 + below(25), () => pick([ascii, anyBlock, () => pick(spaces), () => pick(contractions), number,
    () => pick(words)])()),
];

let classes = '';
for (let c = 0; c < 0x110000; ++c) {
  if (c >= 0xd800 && c < 0xe000) { classes += 'O'; continue; }
  const s = String.fromCodePoint(c);
  classes += /\p{L}/u.test(s) ? 'L' : /\p{N}/u.test(s) ? 'N' : /\s/u.test(s) ? 'S' : 'O';
}
console.log(JSON.stringify({classes}));

// U+0085 and U+FEFF are space on one side only: see trainer/data/split_words.cpp.
const texts = new Set();
let disagreements = 0;
for (let i = 0; texts.size < Number(countText); ++i) {
  const text = kinds[i % kinds.length]().replace(/[\u0085\ufeff]/gu, '');
  if (text === '' || texts.has(text)) continue;
  texts.add(text);
  const tokens = second.encode(text, {disallowedSpecial: new Set()});
  if (JSON.stringify(tokens) !== JSON.stringify(first.encode(text))) {
    ++disagreements;
    process.stderr.write('the packages disagree on ' + JSON.stringify(text) + '\n');
    continue;
  }
  console.log(JSON.stringify({text, tokens}));
}
process.stderr.write(texts.size + ' texts, ' + disagreements + ' on which the packages disagree\n');
