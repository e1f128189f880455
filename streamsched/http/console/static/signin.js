// The form that asks for a token.

import { token } from "./api.js";
import { html, useEffect, useRef, useState } from "./preact.js";

/** Asks for a token and keeps it for this tab. `error`: why the last call was refused. */
export function SignIn({ error, onToken }) {
  const [text, setText] = useState("");
  const field = useRef(null);
  useEffect(() => field.current.focus(), []);

  const submit = (event) => {
    event.preventDefault();
    token.set(text.trim());
    onToken();
  };

  return html`
    <main class="signin">
      <form class="card" onSubmit=${submit}>
        <h1>streamsched</h1>
        <p>This service asks for a token with the scope <code>read</code>.</p>
        ${describeRefusal(error)}
        <label for="token">Token</label>
        <input id="token" ref=${field} type="password" autocomplete="off" spellcheck="false" required value=${text}
          aria-describedby="token-note" onInput=${(event) => setText(event.target.value)} />
        <button type="submit" class="primary">Open the console</button>
        <p id="token-note" class="muted">It is kept until this tab is closed, and is sent to this service only.</p>
      </form>
    </main>
  `;
}

function describeRefusal(error) {
  if (error.status === 403) return html`<p class="notice" role="alert">The token lacks the scope read.</p>`;
  if (token.get()) return html`<p class="notice" role="alert">The token is not valid, or it has expired.</p>`;
  return null;
}
