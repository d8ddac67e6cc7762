import { render } from "preact";
import { App } from "./app";
import { applyTheme, readTheme } from "./theme";
import "./styles/base.css";
import "./styles/ask.css";
import "./styles/trace.css";
import "./styles/pages.css";

applyTheme(readTheme());
const root = document.getElementById("app");
if (root) render(<App />, root);
