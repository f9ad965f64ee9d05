/** The shapes of charts: what a path's `d` says for values in a row. A null is a gap. */

/** A line through values: `x(index)` and `y(value)` give pixels. A value between gaps is a dot. */
export function linePath(values, x, y) {
  let path = "";
  let isOpen = false;
  values.forEach((value, at) => {
    if (value == null) {
      isOpen = false;
      return;
    }
    const place = `${tenth(x(at))},${tenth(y(value))}`;
    if (isOpen) path += `L${place}`;
    else path += `M${place}` + (values[at + 1] == null ? "h0" : "");
    isOpen = true;
  });
  return path;
}

/** The area between such a line and `ground`, in pixels. */
export function areaPath(values, x, y, ground) {
  let path = "";
  for (const [first, last] of runs(values)) {
    path += `M${tenth(x(first))},${ground}`;
    for (let at = first; at <= last; at += 1) path += `L${tenth(x(at))},${tenth(y(values[at]))}`;
    path += `L${tenth(x(last))},${ground}Z`;
  }
  return path;
}

/** Where values without a gap begin and end: pairs of places. */
export function runs(values) {
  const found = [];
  values.forEach((value, at) => {
    if (value == null) return;
    if (at && values[at - 1] != null) found.at(-1)[1] = at;
    else found.push([at, at]);
  });
  return found;
}

function tenth(pixels) {
  return Math.round(pixels * 10) / 10;
}
