// SPDX-License-Identifier: Apache-2.0
// An answer's Markdown as elements. Every text that is shown is a piece of the answer as it came, so a
// piece is given by its place there, and paint(from, to) makes the nodes of it: text, or the tokens that
// it was made of. What is no Markdown after all is text. Nothing becomes markup but the elements made
// here; an address is only ever one of the web's, and of a picture only its words are shown.
import { copy, el } from "./dom.js";

const DEEP = 8; // quotes and lists in each other

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/, HEADING = /^ {0,3}(#{1,6})\s+(?=\S)/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/, QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+(?=\S)|$)/;
const TABLE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

// Bounds keep a text that is full of openings from being read again for each.
const INLINE = new RegExp([
  /\\(?<plain>[\\`*_{}[\]()#+\-.!|~<>])/, /(?<tick>`+)(?<code>[^]{0,999}?[^`])\k<tick>(?!`)/,
  /\*\*(?=\S)(?<strong>[^]{0,1999}?\S)\*\*(?!\*)/, /\*(?=\S)(?<em>[^*]{0,999}?[^\s*])\*/,
  /(?<!\w)__(?=\S)(?<strong2>[^]{0,1999}?\S)__(?!\w)/, /(?<!\w)_(?=\S)(?<em2>[^_]{0,999}?[^\s_])_(?!\w)/,
  /~~(?=\S)(?<del>[^]{0,999}?\S)~~/,
  /!?\[(?<words>[^\]\n]{0,500})\]\((?<to>[^\s()]{1,1000})(?:\s+"[^"\n]{0,200}")?\)/,
  /(?<bare>https?:\/\/[^\s<>()[\]]{0,1000}[^\s<>()[\].,;:!?'"*_])/,
].map(r => r.source).join("|"), "g");
const KINDS = { strong: "strong", strong2: "strong", em: "em", em2: "em", del: "del" };

// A part of the answer whose lines lost what stood before them: its text, and where each piece of it is.
class Part {
  constructor(source, lines) {
    this.pieces = [];
    this.text = lines.map(([from, to]) => source.slice(from, to)).join("\n");
    let at = 0;
    for (const [from, to] of lines) {
      this.pieces.push([at, from, to - from]);
      at += to - from + 1;
    }
  }

  // The nodes of [from, to) of the text; a line ends where it did.
  paint(from, to, paint) {
    const out = [];
    this.pieces.forEach(([at, source, n], i) => {
      const a = Math.max(from, at), b = Math.min(to, at + n);
      if (a < b) out.push(...paint(source + a - at, source + b - at));
      if (i + 1 < this.pieces.length && from <= at + n && at + n < to) out.push(el("br"));
    });
    return out;
  }
}

function link(to, nodes) {
  return /^https?:\/\//.test(to)
    ? el("a", { href: to, title: to, target: "_blank", rel: "noreferrer noopener" }, ...nodes) : nodes;
}

function inline(part, from, to, paint, deep = 0) {
  const out = [], text = part.text.slice(from, to);
  const inner = (found, name) => {
    const at = from + found.indices.groups[name][0], end = from + found.indices.groups[name][1];
    return deep < DEEP ? inline(part, at, end, paint, deep + 1) : part.paint(at, end, paint);
  };
  let done = 0;
  for (const found of text.matchAll(new RegExp(INLINE, "gd"))) {
    const g = found.groups, kind = Object.keys(KINDS).find(k => g[k] !== undefined);
    const exact = name => part.paint(...found.indices.groups[name].map(i => from + i), paint);
    out.push(...part.paint(from + done, from + found.index, paint));
    if (g.plain) out.push(...exact("plain"));
    else if (g.code) out.push(el("code", {}, ...exact("code")));
    else if (g.bare) out.push(link(g.bare, exact("bare")));
    else if (g.to) out.push(...[link(g.to, inner(found, "words"))].flat());
    else out.push(el(KINDS[kind], {}, ...inner(found, kind)));
    done = found.index + found[0].length;
  }
  out.push(...part.paint(from + done, to, paint));
  return out;
}

function codeBlock(source, lines, language, paint) {
  const nodes = lines.flatMap(([from, to], i) => [...(i ? ["\n"] : []), ...paint(from, to)]);
  const text = lines.map(([from, to]) => source.slice(from, to)).join("\n");
  return el("div", { class: "code" },
            el("div", { class: "code-bar" }, el("span", {}, language || "code"),
               el("button", { type: "button", class: "link", onclick: () => copy(text, "Code") }, "Copy")),
            el("pre", { tabindex: 0, role: "region", "aria-label": `Code, ${language || "of no name"}` },
               el("code", {}, ...nodes)));
}

// The cells of a line of a table, as places in it.
function cells(source, [from, to]) {
  const text = source.slice(from, to), out = [];
  let at = /^\s*\|?/.exec(text)[0].length;
  const end = text.length - /(?<!\\)\|?\s*$/.exec(text)[0].length;
  for (let i = at; i <= end; i++)
    if (i === end || text[i] === "|" && text[i - 1] !== "\\") {
      out.push([from + at, from + i]);
      at = i + 1;
    }
  return out;
}

class Reader {
  constructor(source, paint) {
    Object.assign(this, { source, paint, levels: [] });
  }

  text([from, to]) {
    return this.source.slice(from, to);
  }

  flow(lines) {
    const part = new Part(this.source, lines.map(([from, to]) => {
      const t = this.source.slice(from, to);
      return [from + t.length - t.trimStart().length, from + t.trimEnd().length];
    }));
    return inline(part, 0, part.text.length, this.paint);
  }

  // Headings stand below those of the page, and skip no level whatever the answer does.
  heading(line, marks) {
    const level = marks.trim().length;
    while (this.levels.length && this.levels.at(-1) >= level) this.levels.pop();
    this.levels.push(level);
    return el(`h${Math.min(6, 3 + this.levels.length)}`, {}, ...this.flow([line]));
  }

  table(lines) {
    const row = (line, tag) => el("tr", {}, cells(this.source, line).map(c => el(tag, {}, this.flow([c]))));
    return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" },
              el("table", {}, el("thead", {}, row(lines[0], "th")),
                 el("tbody", {}, lines.slice(2).map(l => row(l, "td")))));
  }

  // The items from line i on, and the line behind them. What is indented, or goes on, is an item's.
  list(lines, i, deep) {
    const first = ITEM.exec(this.text(lines[i])), isCounted = /\d/.test(first[2]), items = [];
    const start = i;
    while (i < lines.length) {
      const head = ITEM.exec(this.text(lines[i]));
      if (!head || /\d/.test(head[2]) !== isCounted || RULE.test(this.text(lines[i]))) break;
      const width = head[1].length + head[2].length + Math.min(4, head[3].length || 1);
      const own = [[Math.min(lines[i][0] + head[0].length, lines[i][1]), lines[i][1]]];
      for (i++; i < lines.length; i++) {
        const t = this.text(lines[i]), indent = t.length - t.trimStart().length;
        const isBlank = !t.trim(), next = lines[i + 1] && this.text(lines[i + 1]);
        if (isBlank && !(next && /^ {2,}\S/.test(next))) break;
        if (!isBlank && indent < 2 && (ITEM.test(t) || HEADING.test(t) || FENCE.test(t))) break;
        own.push([Math.min(lines[i][0] + Math.min(indent, width), lines[i][1]), lines[i][1]]);
      }
      items.push(el("li", {}, ...this.blocks(own, deep + 1)));
      while (i + 1 < lines.length && !this.text(lines[i]).trim() && ITEM.test(this.text(lines[i + 1]))) i++;
    }
    const from = Number.parseInt(first[2], 10);
    if (i === start) return [null, i]; // a rule that looks like one
    return [el(isCounted ? "ol" : "ul", { start: isCounted && from !== 1 ? from : null }, ...items), i];
  }

  fence(lines, i, [, mark, language]) {
    const end = lines.findIndex((l, k) => k > i &&
      new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},}\\s*$`).test(this.text(l)));
    const upTo = end < 0 ? lines.length : end;
    return [codeBlock(this.source, lines.slice(i + 1, upTo), language, this.paint), upTo + 1];
  }

  starts(lines, i) {
    const t = this.text(lines[i]);
    return !t.trim() || FENCE.test(t) || HEADING.test(t) || QUOTE.test(t) || RULE.test(t) || ITEM.test(t) ||
           this.isTable(lines, i);
  }

  isTable(lines, i) {
    return i + 1 < lines.length && this.text(lines[i]).includes("|") &&
           this.text(lines[i + 1]).includes("-") && TABLE.test(this.text(lines[i + 1]));
  }

  blocks(lines, deep = 0) {
    const out = [];
    for (let i = 0; i < lines.length;) {
      const t = this.text(lines[i]), fence = FENCE.exec(t), heading = HEADING.exec(t);
      let node = null, next = i + 1;
      if (!t.trim()) {
        i++;
        continue;
      }
      if (fence) [node, next] = this.fence(lines, i, fence);
      else if (heading) node = this.heading([lines[i][0] + heading[0].length, lines[i][1]], heading[1]);
      else if (RULE.test(t)) node = el("hr");
      else if (deep < DEEP && QUOTE.test(t)) {
        while (next < lines.length && QUOTE.test(this.text(lines[next]))) next++;
        const own = lines.slice(i, next).map(l => [l[0] + QUOTE.exec(this.text(l))[0].length, l[1]]);
        node = el("blockquote", {}, ...this.blocks(own, deep + 1));
      } else if (deep < DEEP && ITEM.test(t)) [node, next] = this.list(lines, i, deep);
      else if (this.isTable(lines, i)) {
        next = i + 2;
        while (next < lines.length && this.text(lines[next]).includes("|")) next++;
        node = this.table(lines.slice(i, next));
      }
      if (!node) {
        for (next = i + 1; next < lines.length && !this.starts(lines, next);) next++;
        node = el("p", {}, ...this.flow(lines.slice(i, next)));
      }
      out.push(node);
      i = next;
    }
    return out;
  }
}

export function markdown(source, paint) {
  const lines = [];
  for (let at = 0; at <= source.length;) {
    const end = source.indexOf("\n", at);
    lines.push([at, end < 0 ? source.length : end]);
    at = end < 0 ? source.length + 1 : end + 1;
  }
  return new Reader(source, paint).blocks(lines);
}
