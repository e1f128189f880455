// The foot: the version, links to the documentation, and the calls of the API as the service describes them.

import { get } from "./api.js";
import { html, useState } from "./preact.js";

/** Shows the `version`, and the calls once they are asked for. */
export function Foot({ version }) {
  const [state, setState] = useState({ calls: null, error: null });
  const load = async (event) => {
    if (!event.target.open || state.calls) return;
    try {
      setState({ calls: listCalls(await get("/openapi.json")), error: null });
    } catch (error) {
      setState({ calls: null, error });
    }
  };
  return html`
    <footer class="foot">
      <p class="muted">
        streamsched ${version} ·${" "}
        <a href="/docs" target="_blank" rel="noopener">Documentation</a> ·${" "}
        <a href="/docs/console.md" target="_blank" rel="noopener">What this page shows</a>
      </p>
      <details onToggle=${load}>
        <summary>Calls of the API</summary>
        <p class="muted">
          In full, with their fields: <a href="/openapi.json" target="_blank" rel="noopener">OpenAPI document</a>.
        </p>
        ${state.error && html`<p class="notice" role="status">Not available: ${state.error.message}.</p>`}
        ${state.calls && html`<${Calls} calls=${state.calls} />`}
      </details>
    </footer>
  `;
}

/** Returns `{route, scope, summary}` of each operation of an OpenAPI document, in its order. */
function listCalls({ paths }) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { tags, summary }]) => ({
      route: `${method.toUpperCase()} ${path}`,
      scope: tags[0] === "open" ? "none" : tags[0],
      summary,
    })),
  );
}

function Calls({ calls }) {
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Calls of the API">
      <table>
        <thead><tr><th>call</th><th>scope</th><th>what it does</th></tr></thead>
        <tbody>
          ${calls.map(
            ({ route, scope, summary }) => html`
              <tr key=${route}><td class="url">${route}</td><td>${scope}</td><td class="wait">${summary}</td></tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}
