/** The clipboard, over plain HTTP as well. */

/** Puts a text there; resolves to whether the browser allowed it. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // not allowed, or over plain HTTP not even there
    return copyOldWay(text);
  }
}

function copyOldWay(text) {
  const focused = /** @type {HTMLElement|null} */ (document.activeElement);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus();
  return isCopied;
}
