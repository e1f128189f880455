// What changes the service: a call that says what has come of it.

import { call } from "./api.js";
import { html, useState } from "./preact.js";

/**
 * Returns `{act, outcome, busy}`. `act`: called with a method, a path, a body, and a function that makes a sentence of
 * the answer; it returns whether the service has done it. `outcome`: shown as text until the next call.
 */
export function useAction() {
  const [state, setState] = useState({ busy: false, text: "", failed: false });
  const act = async (method, path, body, describe) => {
    setState({ busy: true, text: "", failed: false });
    try {
      const text = describe(await call(method, path, body));
      setState({ busy: false, text, failed: false });
      return true;
    } catch (error) {
      setState({ busy: false, text: `Not done: ${error.message}.`, failed: true });
      return false;
    }
  };
  const outcome =
    state.text && html`<p class=${`outcome ${state.failed ? "notice" : "muted"}`} role="status">${state.text}</p>`;
  return { act, outcome, busy: state.busy };
}
