// Starts the console.

import { App } from "./app.js";
import { html, render } from "./preact.js";

render(html`<${App} />`, document.body);
