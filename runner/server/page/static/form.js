// A JSON Schema as a form: texts, numbers, yes or no, choices, lists of choices, nested groups. A part that none of
// these fits is asked for as JSON, so every schema can be answered. Patterns are shown and not run: one that was made
// to take for ever would hold up the page.

import { el, newId } from "./dom.js";
import { oneLine, textBlock, visible } from "./text.js";

const MAX_DEPTH = 8;
const RADIOS = 6;
const LONG_TEXT = 200;
const TYPES = { email: "email", date: "date", time: "time", "date-time": "datetime-local", password: "password" };

/** {element, read()}: `read` gives {value}, {} for what is left out, or {problem, control}: what is wrong, and where.
 * Each field also has `blank()`: nothing was filled in. */
export function formOf(form) {
  const schema = typeof form === "string" ? parsed(form) : form;
  const field = isObject(schema) && (isObject(schema.properties) || schema.type)
    ? fieldOf({ name: "", schema, root: schema, required: true, depth: 0 })
    : jsonField({ label: "Your answer as JSON", schema: { description: "The form has no fields that this page knows. It is shown above your answer." }, required: true }, form);
  return { element: field.element, read: field.read };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function fieldOf(asked) {
  const schema = resolved(asked.schema, asked.root);
  const place = { ...asked, schema, label: labelOf(asked.name, schema) };
  const choices = choicesOf(schema);
  if (asked.depth > MAX_DEPTH) return jsonField(place);
  if (choices) return choiceField(place, choices);
  switch (typeOf(schema)) {
    case "object":
      return isObject(schema.properties) ? groupField(place) : jsonField(place);
    case "boolean":
      return booleanField(place);
    case "string":
      return textField(place);
    case "number":
    case "integer":
      return numberField(place);
    case "array":
      return listField(place);
    default:
      return jsonField(place);
  }
}

function resolved(schema, root, depth = 0) {
  if (!isObject(schema)) return {};
  const reference = schema.$ref;
  if (typeof reference !== "string" || !reference.startsWith("#/") || depth > MAX_DEPTH) return schema;
  const found = reference.slice(2).split("/").reduce((value, key) => {
    const name = key.replaceAll("~1", "/").replaceAll("~0", "~");
    return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }, root);
  return resolved({ ...(isObject(found) ? found : {}), ...schema, $ref: found?.$ref }, root, depth + 1);
}

function typeOf(schema) {
  const types = [schema.type].flat().filter((type) => type !== "null");
  if (types.length === 1) return types[0];
  return schema.type === undefined && isObject(schema.properties) ? "object" : null;
}

function choicesOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => ({ value, name: nameOf(value) }));
  const several = schema.oneOf ?? schema.anyOf;
  if (!Array.isArray(several) || !several.every((one) => isObject(one) && Object.hasOwn(one, "const"))) return null;
  return several.map((one) => ({ value: one.const, name: one.title ? oneLine(String(one.title)) : nameOf(one.const) }));
}

const nameOf = (value) => oneLine(typeof value === "string" ? value : JSON.stringify(value));

function labelOf(name, schema) {
  const plain = name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");
  return oneLine(typeof schema.title === "string" && schema.title ? schema.title : plain) || "Your answer";
}

// --- the kinds of fields --------------------------------------------------------------------------------------

function groupField(place) {
  const required = new Set(Array.isArray(place.schema.required) ? place.schema.required : []);
  const fields = Object.entries(place.schema.properties).map(([name, schema]) => ({
    name,
    needed: required.has(name),
    ...fieldOf({ name, schema, root: place.root, required: required.has(name), depth: place.depth + 1 }),
  }));
  const inner = fields.map((field) => field.element);
  const titled = place.depth > 0 || typeof place.schema.title === "string";
  const element = titled
    ? el("fieldset", {}, legend(place), description(place).element, inner)
    : el("div", {}, description(place).element, inner);
  const blank = () => fields.every((field) => field.blank());
  // A group that may be left out is left out as a whole, whatever it requires inside.
  return { element, blank, read: () => (!place.required && blank() ? {} : readGroup(fields)) };
}

function readGroup(fields) {
  const entries = [];
  for (const field of fields) {
    const found = field.read();
    if (found.problem) return found;
    if (found.value !== undefined) entries.push([field.name, found.value]);
  }
  return { value: Object.fromEntries(entries) };
}

function textField(place) {
  const { schema } = place;
  const long = schema.maxLength > LONG_TEXT || ["textarea", "multiline", "markdown"].includes(schema.format);
  const limits = { maxlength: schema.maxLength, minlength: schema.minLength };
  const control = long
    ? el("textarea", { rows: 4, dir: "auto", ...limits })
    : el("input", { type: TYPES[schema.format] ?? "text", dir: "auto", autocomplete: "off", ...limits });
  if (typeof schema.default === "string") control.value = schema.default;
  return controlField(place, control, (value) => value);
}

function numberField(place) {
  const { schema } = place;
  const whole = typeOf(schema) === "integer";
  const control = el("input", {
    type: "number",
    step: schema.multipleOf ?? (whole ? 1 : "any"),
    min: schema.minimum,
    max: schema.maximum,
    inputmode: whole ? "numeric" : "decimal",
  });
  if (typeof schema.default === "number") control.value = String(schema.default);
  return controlField(place, control, Number);
}

function booleanField(place) {
  const id = newId("field");
  const note = description(place);
  const control = el("input", { type: "checkbox", id, "aria-describedby": note.id });
  control.checked = place.schema.default === true;
  return {
    element: el("div", { class: "field check" }, control, el("label", { for: id, dir: "auto" }, place.label), note.element),
    blank: () => !control.checked,
    read: () => ({ value: control.checked }),
  };
}

function choiceField(place, choices) {
  const chosen = choices.findIndex((choice) => JSON.stringify(choice.value) === JSON.stringify(place.schema.default));
  if (choices.length > RADIOS) {
    const options = choices.map((choice, index) => el("option", { value: index, selected: index === chosen }, choice.name));
    const empty = el("option", { value: "" }, place.required ? "Choose…" : "No answer");
    return controlField(place, el("select", { dir: "auto" }, empty, options), (index) => choices[index].value);
  }
  return boxesField(place, choices, "radio", chosen < 0 ? [] : [chosen], (picked) =>
    picked.length === 0 ? {} : { value: choices[picked[0]].value },
  );
}

function listField(place) {
  const { schema } = place;
  const items = resolved(schema.items, place.root);
  const choices = choicesOf(items);
  if (choices) {
    const wanted = (Array.isArray(schema.default) ? schema.default : []).map((value) => JSON.stringify(value));
    const chosen = choices.flatMap((choice, index) => (wanted.includes(JSON.stringify(choice.value)) ? [index] : []));
    return boxesField(place, choices, "checkbox", chosen, (picked) => listed(place, picked.map((index) => choices[index].value)));
  }
  if (typeOf(items) !== "string") return jsonField(place);
  const control = el("textarea", { rows: 3, dir: "auto" });
  if (Array.isArray(schema.default)) control.value = schema.default.join("\n");
  const asked = { ...place, schema: { ...schema, description: `${schema.description ?? ""} One per line.`.trim() } };
  return controlField(asked, control, (value) => value.split("\n").map((line) => line.trim()).filter(Boolean));
}

function listed(place, value) {
  const { minItems = 0, maxItems = Infinity } = place.schema;
  if (value.length === 0 && !place.required) return {};
  if (value.length < minItems) return { problem: `Choose at least ${minItems}.` };
  return value.length > maxItems ? { problem: `Choose at most ${maxItems}.` } : { value };
}

function jsonField(place, shown) {
  const control = el("textarea", { rows: 5, spellcheck: "false", class: "code" });
  if (place.schema.default !== undefined) control.value = JSON.stringify(place.schema.default, null, 2);
  const field = controlField({ ...place, label: place.name ? `${place.label} (as JSON)` : place.label }, control, (text) => {
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new Error(`This is not JSON: ${error.message}.`, { cause: error });
    }
  });
  if (shown !== undefined) field.element.prepend(textBlock(JSON.stringify(shown, null, 2), { tag: "pre", name: "form", className: "code" }));
  return field;
}

// --- what fields have in common -------------------------------------------------------------------------------

function controlField(place, control, convert) {
  const id = newId("field");
  const note = description(place);
  const wrong = el("p", { class: "problem", id: newId("problem") });
  control.id = id;
  control.required = place.required;
  control.setAttribute("aria-describedby", [note.id, wrong.id].filter(Boolean).join(" "));
  const tell = (problem) => {
    wrong.textContent = problem;
    control.ariaInvalid = problem ? "true" : null;
    return problem ? { problem, control } : null;
  };
  const read = () => {
    const failed = tell(control.checkValidity() ? "" : control.validationMessage);
    if (failed) return failed;
    if (control.value === "" && !place.required) return {};
    try {
      return { value: convert(control.value) };
    } catch (error) {
      return tell(error.message);
    }
  };
  return { element: el("div", { class: "field" }, label(place, id), note.element, control, wrong), blank: () => control.value === "", read };
}

function boxesField(place, choices, type, chosen, convert) {
  const group = newId("choice");
  const wrong = el("p", { class: "problem", id: newId("problem") });
  const note = description(place);
  const boxes = choices.map((_, index) => el("input", { type, name: group, id: `${group}-${index}`, value: index }));
  for (const index of chosen) boxes[index].checked = true;
  const rows = choices.map((choice, index) =>
    el("div", { class: "check" }, boxes[index], el("label", { for: boxes[index].id, dir: "auto" }, choice.name)),
  );
  const described = [note.id, wrong.id].filter(Boolean).join(" ");
  const role = type === "radio" ? "radiogroup" : null;
  const element = el("fieldset", { class: "field", role, "aria-describedby": described }, legend(place), note.element, rows, wrong);
  const read = () => {
    const found = convert(boxes.flatMap((box, index) => (box.checked ? [index] : [])));
    const problem = found.problem ?? (found.value === undefined && place.required ? "Choose one of these." : "");
    wrong.textContent = problem;
    return problem ? { problem, control: boxes[0] } : found;
  };
  return { element, blank: () => !boxes.some((box) => box.checked), read };
}

const wish = (place) => (place.required || place.depth === 0 ? null : el("span", { class: "optional" }, " (optional)"));
const label = (place, id) => el("label", { for: id, dir: "auto" }, place.label, wish(place));
const legend = (place) => el("legend", { dir: "auto" }, place.label, wish(place));

function description(place) {
  const { description: words, pattern } = place.schema;
  const text = [words, typeof pattern === "string" && `Pattern: ${pattern}`].filter((part) => typeof part === "string").join(" ");
  if (text === "") return { element: null, id: null };
  const id = newId("note");
  return { element: el("p", { class: "hint", id, dir: "auto" }, visible(text.slice(0, 2000))), id };
}
