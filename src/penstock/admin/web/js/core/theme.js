/** Light or dark: as the system wishes, or as was chosen here, which this browser remembers. */

const KEY = "nsqadmin.theme";

/** All themes, in the order in which the button offers them. */
const THEMES = ["system", "light", "dark"];

let chosen = remembered();

/** The chosen theme: one of THEMES. */
export function theme() {
  return chosen;
}

/** Chooses a theme, and remembers it if the browser allows that. */
function setTheme(name) {
  chosen = name;
  apply();
  try {
    if (name === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, name);
  } catch {
    // storage is refused or full: the choice holds until the page is left
  }
}

/** Chooses the theme after this one. */
export function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length]);
}

function remembered() {
  try {
    const name = localStorage.getItem(KEY);
    return THEMES.includes(name) ? name : "system";
  } catch {
    return "system";
  }
}

function apply() {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

apply();
addEventListener("storage", (event) => {
  if (event.key !== KEY && event.key !== null) return;
  chosen = remembered();
  apply();
});
