/** Bytes as people read them: 16 to a row, their offset before them and their ASCII behind. */

const ROW = 16;
const HALF = ROW / 2;
const CELL = 3; // two digits and a blank
const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/**
 * The rows of a hex dump: `00000010  48 65 6c 6c 6f …  Hello…`.
 *
 * @param {Uint8Array} bytes
 * @returns {{offset: string, hex: string, ascii: string}[]} `hex` is as wide in every row
 */
export function hexRows(bytes) {
  const rows = [];
  for (let at = 0; at < bytes.length; at += ROW) {
    const part = bytes.subarray(at, at + ROW);
    rows.push({
      offset: at.toString(16).padStart(8, "0"),
      hex: digitsOf(part).padEnd(ROW * CELL),
      ascii: Array.from(part, characterOf).join(""),
    });
  }
  return rows;
}

/** A hex dump as one text, for the clipboard. */
export function hexDump(bytes) {
  return hexRows(bytes).map(({ offset, hex, ascii }) => `${offset}  ${hex}  ${ascii}`).join("\n");
}

/** A wider gap in the middle, to count by. */
function digitsOf(part) {
  return Array.from(part, (byte, at) => (at === HALF ? " " : "") + DIGITS[byte]).join(" ");
}

function characterOf(byte) {
  return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".";
}
