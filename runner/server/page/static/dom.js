// Making and changing elements. Text goes in as text nodes only: no part of this page parses HTML.

/** An element. Properties that are null, undefined or false are left out; children that are null are, too. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  append(made, children);
  return made;
}

export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) parent.append(child);
  }
}

/** Set the text only if it differs, so that nothing is announced or selected anew. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Make `parent` hold exactly these elements in this order, and leave those that already stand right alone. */
export function arrange(parent, wanted) {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  let place = parent.firstElementChild;
  for (const element of wanted) {
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
}

let numbers = 0;

/** An id for labels and descriptions. */
export function newId(name) {
  numbers += 1;
  return `${name}-${numbers}`;
}

/** Say it to those who cannot see it, once. */
export function announce(text) {
  const place = document.getElementById("announcer");
  place.textContent = "";
  place.textContent = text;
}

/** True if whoever reads is at the end of the page, so that it may follow what comes. */
export function atEnd() {
  const page = document.scrollingElement;
  return page.scrollHeight - page.scrollTop - page.clientHeight < 160;
}

export function toEnd() {
  const page = document.scrollingElement;
  page.scrollTop = page.scrollHeight;
}
