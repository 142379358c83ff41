// SPDX-License-Identifier: Apache-2.0
//
// Finds sections that have all words typed, those with the words in their heading first. The texts are
// fetched as a script when somebody comes to the field: pages opened as files may fetch nothing else.
const root = document.currentScript.dataset.root;
const box = document.createElement("div");
box.className = "find";
box.innerHTML = '<input type="search" placeholder="Find" aria-label="Find in all pages"><ul></ul>';
document.querySelector("header").append(box);
const [field, list] = box.children;

field.addEventListener("focus", () => {
  const script = document.createElement("script");
  script.src = root + "sections.js";
  script.addEventListener("load", show);
  document.head.append(script);
}, { once: true });
field.addEventListener("input", show);
box.addEventListener("keydown", event => {
  if (event.key === "Escape") {
    field.value = "";
    show();
    field.focus();
  }
});

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length && window.SECTIONS ? SECTIONS.filter(([, page, heading, text]) => {
    const all = `${page} ${heading} ${text}`.toLowerCase();
    return words.every(word => all.includes(word));
  }) : [];
  const named = ([, , heading]) => words.every(word => heading.toLowerCase().includes(word));
  found.sort((a, b) => named(b) - named(a));
  list.replaceChildren(...found.slice(0, 8).map(([to, page, heading]) => {
    const item = document.createElement("li"), link = document.createElement("a");
    const where = document.createElement("small");
    link.href = root + to;
    link.textContent = heading;
    where.textContent = page;
    link.append(where);
    item.append(link);
    return item;
  }));
}
