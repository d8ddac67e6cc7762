/** The API key and the admin token, for this tab only unless the person asks to keep the key. */

export type KeyName = "api-key" | "admin-token";

const name = (key: KeyName): string => `parallelsearch.${key}`;

export function readKey(key: KeyName): string {
  return sessionStorage.getItem(name(key)) ?? localStorage.getItem(name(key)) ?? "";
}

export function isKept(key: KeyName): boolean {
  return localStorage.getItem(name(key)) !== null;
}

export function writeKey(key: KeyName, value: string, keep: boolean): void {
  sessionStorage.removeItem(name(key));
  localStorage.removeItem(name(key));
  if (value) (keep ? localStorage : sessionStorage).setItem(name(key), value);
}
