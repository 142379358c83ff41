// SPDX-License-Identifier: Apache-2.0
// A talk is a tree: a message that was edited, and an answer that was made anew, stand beside what was
// there before. A message is {role, content} with its successors `kids` and which of them is shown,
// `at`; the talk itself is only these two.

export const newTalk = () => ({ kids: [], at: 0 });

// The messages that are shown, the first one first.
export function path(talk) {
  const out = [];
  for (let m = talk, next; (next = m.kids[m.at]); m = next) out.push(next);
  return out;
}

export const tip = talk => path(talk).at(-1) ?? talk;

// What m stands behind: a message or the talk. m is one that is shown.
export function before(talk, m) {
  const shown = path(talk), i = shown.indexOf(m);
  return i > 0 ? shown[i - 1] : talk;
}

// One more behind `parent`, and the one that is shown.
export function add(parent, fields) {
  const m = { ...fields, kids: [], at: 0 };
  parent.at = parent.kids.push(m) - 1;
  return m;
}

export function remove(parent, m) {
  parent.kids.splice(parent.kids.indexOf(m), 1);
  parent.at = Math.max(0, parent.kids.length - 1);
}

export function everyMessage(talk) {
  const out = [], todo = [...talk.kids];
  for (let m; (m = todo.pop());) {
    out.push(m);
    todo.push(...m.kids);
  }
  return out;
}
