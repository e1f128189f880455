// What a part of the page shows while it has no content: it is being loaded, it failed, or there is none.

import { html } from "./preact.js";

/** Shows `children` called with the value, or why there is none. `polled`: of `usePolled`. */
export function Loaded({ polled, children }) {
  if (polled.value) return children(polled.value);
  if (polled.error) return html`<p class="notice" role="status">Not available: ${polled.error.message}.</p>`;
  return html`<p class="muted" role="status">Loading…</p>`;
}

/** Says that a list has no entries. */
export const Nothing = ({ children }) => html`<p class="muted">${children}</p>`;
