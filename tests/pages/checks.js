// What a page has to be for everybody to use it. Each function gives what is wrong with this one.

const seen = (e) => {
  const box = e.getBoundingClientRect();
  return box.width > 2 && box.height > 2 && getComputedStyle(e).visibility !== "hidden";
};
const text = (e) => (e.getAttribute("aria-label") || e.textContent || "").trim();
const all = (selector) => [...document.querySelectorAll(selector)];
const start = (e) => e.outerHTML.slice(0, 100);

const numbers = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);

// Relative luminance, as WCAG defines it.
const luminance = ([red, green, blue]) => {
  const [r, g, b] = [red, green, blue].map((v) => {
    const part = v / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const found = numbers(getComputedStyle(e).backgroundColor);
    if (found.length === 3 || found[3] === 1) return found;
    if (found[3] > 0) throw new Error("nothing of ours is half transparent");
  }
  return [255, 255, 255]; // the browser's own
};

// Text whose contrast with what is behind it is below AA: 4.5, or 3 where it is large.
function faint() {
  const wrong = [];
  for (const e of all("body *")) {
    const hasText = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!(hasText || e.matches("input, textarea, select")) || !seen(e)) continue;
    if (e.matches("title, desc, option, optgroup")) continue;
    const style = getComputedStyle(e);
    const ink = luminance(numbers(e.closest("svg") ? style.fill : style.color));
    const behind = luminance(ground(e));
    const contrast = (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (isLarge ? 3 : 4.5)) wrong.push(`${contrast.toFixed(2)}: ${start(e)}`);
  }
  return wrong;
}

// What assistive technology could not name.
function unnamed() {
  const isNamed = (svg) =>
    svg.getAttribute("role") === "img" &&
    (svg.getAttribute("aria-labelledby") || "x")
      .split(" ")
      .every((id) => document.getElementById(id) && text(document.getElementById(id)));
  const fields = "input:not([type=hidden], [aria-hidden=true]), select, textarea, progress";
  const refers = ["aria-describedby", "aria-labelledby"].flatMap((name) =>
    all(`[${name}]`).flatMap((e) => e.getAttribute(name).split(" ")),
  );
  return [
    ...all(fields).filter((e) => !e.labels.length || !text(e.labels[0])),
    ...all("button, a, summary, th").filter((e) => !text(e)),
    ...all("img").filter((e) => !e.alt),
    ...all("svg").filter((e) => e.getAttribute("aria-hidden") !== "true" && !isNamed(e)),
    ...all("[role=region], nav").filter((e) => !e.getAttribute("aria-label")),
    ...all("th").filter((e) => !e.scope),
    ...all("fieldset").filter((e) => !e.querySelector("legend")),
  ]
    .map(start)
    .concat(refers.filter((id) => !document.getElementById(id)));
}

// Headings that skip a level, and ids that are there twice.
function misplaced() {
  const levels = all("h1, h2, h3, h4, h5, h6").map((e) => Number(e.tagName[1]));
  const ids = all("[id]").map((e) => e.id);
  return [
    ...levels.filter((level, i) => level > (i ? levels[i - 1] : 0) + 1),
    ...ids.filter((id, i) => ids.indexOf(id) !== i),
  ];
}

const name = (e) =>
  [e.tagName, e.getAttribute("aria-label"), e.id, e.name, e.href || e.value || text(e)].join(" ");

// What the Tab key has to come by, in the page's order; of radio buttons the one that is set.
function reachable() {
  const found = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  return all(found)
    .filter((e) => e.matches(".skip") || e.checkVisibility())
    .filter((e) => e.tabIndex === 0 && !(e.type === "radio" && !e.checked))
    .map(name);
}

// Where the keyboard is, and whether that can be seen.
function focused() {
  const style = getComputedStyle(document.activeElement);
  const isOutlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  return [name(document.activeElement), isOutlined];
}
