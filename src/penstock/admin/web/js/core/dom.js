/**
 * Pages as values: `h` describes an element, `render` makes the document look like it.
 *
 *     render(root, h("p", { class: "note" }, "depth ", h("b", {}, depth)));
 *
 * Only what differs from the last time is touched, so focus, selection and scrolling stay. Text is
 * only ever text: there is no way here for a name or a body to become markup.
 *
 * A property is an attribute, but `on…` is a listener; `value` and `checked` are what the element
 * has; `style` is an object of CSS properties; `key` tells siblings apart when they move; `onmount`
 * gets the element when it is new, and what it returns is called when the element goes; `ondraw`
 * gets it every time: for what draws its own inside, such as a chart that follows its width.
 */

const SVG = "http://www.w3.org/2000/svg";
const LIVE = new Set(["value", "checked", "open", "indeterminate"]);
const NOT_SET = new Set(["key", "onmount", "ondraw"]);

/** Describes an element. Children that are null, undefined or booleans are left out, lists are opened. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, key: props?.key, children: flat(children, []), element: null };
}

function flat(children, into) {
  for (const child of children) {
    if (Array.isArray(child)) flat(child, into);
    else if (child != null && typeof child !== "boolean") {
      into.push(typeof child === "object" ? child : { text: String(child), element: null });
    }
  }
  return into;
}

/** Makes the children of `root` look like these. */
export function render(root, ...children) {
  const now = flat(children, []);
  patchChildren(root, root.rendered ?? [], now, root.namespaceURI === SVG);
  root.rendered = now;
}

function patchChildren(parent, before, after, svg) {
  const keyed = new Map();
  const plain = [];
  for (const old of before) {
    if (old.key === undefined) plain.push(old);
    else keyed.set(old.key, old);
  }
  const gone = new Set(before);
  let next = 0;
  for (const now of after) {
    const old = now.key === undefined ? plain[next++] : keyed.get(now.key);
    if (old !== undefined && old.tag === now.tag && gone.delete(old)) patch(old, now, svg);
    else create(now, svg);
  }
  gone.forEach(remove); // before others are moved: what stays where it is keeps its focus
  let place = parent.firstChild;
  for (const now of after) {
    if (now.element === place) place = place.nextSibling;
    else parent.insertBefore(now.element, place);
  }
}

function create(now, svg) {
  if (now.tag === undefined) {
    now.element = document.createTextNode(now.text);
    return;
  }
  const inSvg = svg || now.tag === "svg";
  now.element = inSvg ? document.createElementNS(SVG, now.tag) : document.createElement(now.tag);
  patchChildren(now.element, [], now.children, inSvg);
  for (const name of Object.keys(now.props)) set(now.element, name, undefined, now.props[name]);
  if (now.props.onmount) now.unmount = now.props.onmount(now.element);
  now.props.ondraw?.(now.element);
}

function patch(old, now, svg) {
  if (old === now) return; // a description that is kept says that nothing of it has changed
  const element = (now.element = old.element);
  if (now.tag === undefined) {
    if (old.text !== now.text) element.data = now.text;
    return;
  }
  now.unmount = old.unmount;
  patchChildren(element, old.children, now.children, svg || now.tag === "svg");
  for (const name of Object.keys(old.props)) {
    if (!(name in now.props)) set(element, name, old.props[name], undefined);
  }
  for (const name of Object.keys(now.props)) set(element, name, old.props[name], now.props[name]);
  now.props.ondraw?.(element);
}

function set(element, name, old, now) {
  if (NOT_SET.has(name)) return;
  if (LIVE.has(name)) {
    if (element[name] !== now) element[name] = now ?? "";
  } else if (old === now) {
    return;
  } else if (name.startsWith("on")) {
    element[name] = now ?? null;
  } else if (name === "style") {
    setStyle(element, old ?? {}, now ?? {});
  } else if (now == null || now === false) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, now === true ? "" : now);
  }
}

function setStyle(element, old, now) {
  for (const name of Object.keys(old)) if (!(name in now)) element.style.removeProperty(name);
  for (const [name, value] of Object.entries(now)) {
    if (old[name] !== value) element.style.setProperty(name, value);
  }
}

function remove(old) {
  unmount(old);
  old.element.remove();
}

function unmount(old) {
  old.unmount?.();
  for (const child of old.children ?? []) unmount(child);
}
