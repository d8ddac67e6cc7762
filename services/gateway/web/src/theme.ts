/** Light, dark, or as the system has it. */
import { kept } from "./storage";

export type Theme = "system" | "light" | "dark";
const KEY = "parallelsearch.theme";

export function readTheme(): Theme {
  const theme = kept.getItem(KEY);
  return theme === "light" || theme === "dark" ? theme : "system";
}

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  if (theme === "system") kept.removeItem(KEY);
  else kept.setItem(KEY, theme);
}
