/** Light, dark, or as the system has it. */

export type Theme = "system" | "light" | "dark";
const KEY = "parallelsearch.theme";

export function readTheme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  if (theme === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
}
