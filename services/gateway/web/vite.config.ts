import { defineConfig } from "vite";

// Built into the Python package, so that the wheel ships the page and nobody needs node to run it.
export default defineConfig({
  build: {
    outDir: "../src/gateway/web",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    target: ["chrome123", "firefox121", "safari17.5"],
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  server: { proxy: { "/v1": "http://127.0.0.1:8080", "/readyz": "http://127.0.0.1:8080" } },
});
