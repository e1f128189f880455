// A dialog with all that is known of a page: its place, why it is there, and the terminals of its score.

import { useAction } from "./actions.js";
import { get } from "./api.js";
import { count, moment, number, plural } from "./format.js";
import { usePolled } from "./polling.js";
import { html, useLayoutEffect, useRef, useState } from "./preact.js";
import { Loaded } from "./states.js";

/**
 * Explains the page of `url`; is closed while that is null. `mayAsk`: whether a visit can be requested; `onWeek`:
 * called with the URL to show its week.
 */
export function Explanation({ url, mayAsk, onClose, onWeek }) {
  const dialog = useRef(null);
  const [state, setState] = useState({ url: null, found: null, error: null });

  useLayoutEffect(() => {
    if (url === null) {
      dialog.current.close();
      return undefined;
    }
    if (!dialog.current.open) dialog.current.showModal();
    let ended = false;
    const keep = (part) => !ended && setState({ url, found: null, error: null, ...part });
    keep({});
    get("/v1/explain", { url }).then((found) => keep({ found }), (error) => keep({ error }));
    return () => {
      ended = true;
    };
  }, [url]);

  const noteClose = () => url !== null && !dialog.current.open && onClose(); // by the Escape key
  const closeOutside = (event) => event.target === dialog.current && onClose();
  return html`
    <dialog ref=${dialog} onClose=${noteClose} onClick=${closeOutside} aria-labelledby="explained">
      <div class="content">
        <div class="bar">
          <h2 id="explained" class="url">${url}</h2>
          <button class="plain" onClick=${onClose} aria-label="Close">✕</button>
        </div>
        ${state.error && html`<p class="notice">${describeError(state.error)}</p>`}
        ${!state.error && !state.found && html`<p class="muted">Loading…</p>`}
        ${url !== null && state.found && html`<${Found} found=${state.found} mayAsk=${mayAsk} />`}
        ${state.found &&
        html`
          <p class="sizes">
            <button onClick=${() => onWeek(state.url)}>Show its week</button>
            <a class="button" href=${safeAddress(state.url)} target="_blank" rel="noreferrer noopener">Open the page</a>
          </p>
        `}
      </div>
    </dialog>
  `;
}

const describeError = (error) => (error.status === 404 ? "This page is not known." : `${error.message}.`);

/** Returns the address if a click on it loads a page and runs nothing. */
const safeAddress = (url) => (/^https?:/i.test(url) ? url : undefined);

function Found({ found, mayAsk }) {
  return html`
    <dl class="facts">
      <div><dt>Score</dt><dd>${number(found.score)}</dd></div>
      <div><dt>Place in the ranking</dt><dd>${describePlace(found)}</dd></div>
      <div><dt>Probability of a change</dt><dd>${number(found.probability)}</dd></div>
      <div><dt>May be visited</dt><dd>${describeEligibility(found)}</dd></div>
      <div><dt>Pattern</dt><dd class="url">${found.pattern}, ${count(found.prior_pages)} pages</dd></div>
    </dl>
    <h3>Why</h3>
    <ul class="reasons">
      ${found.reasons.map((reason) => html`<li><span>${sentence(reason.text)}</span><code>${reason.code}</code></li>`)}
    </ul>
    <${History} key=${found.url} url=${found.url} mayAsk=${mayAsk} />
    <h3>Causes of a change since the last visit</h3>
    <${Causes} causes=${found.causes} />
    <h3>Terms of the score</h3>
    <p><code>${found.formula}</code></p>
    <${Terminals} terminals=${found.terminals} formula=${found.formula} />
  `;
}

/** Shows what the page's record knows of its visits. */
function History({ url, mayAsk }) {
  const [turn, setTurn] = useState(0);
  const { act, outcome, busy } = useAction();
  const polled = usePolled(`/v1/pages/${encodeURIComponent(url)}`, {}, 10, turn);
  const ask = async () => {
    const describe = ({ rejections: [rejection] }) =>
      rejection ? `Not done: expected ${rejection.expected}.` : "A visit is requested; it comes before others.";
    if (await act("POST", "/v1/ask", { urls: [url] }, describe)) setTurn(turn + 1);
  };
  return html`
    <h3>History</h3>
    <${Loaded} polled=${polled}>${(page) => html`<${Record} page=${page} />`}<//>
    ${mayAsk && html`<p class="sizes"><button disabled=${busy} onClick=${ask}>Ask for a visit</button></p>`}
    ${outcome}
  `;
}

function Record({ page }) {
  const facts = [
    page.last_visit_s === null && ["Known since", moment(page.known_since_s)],
    ["Last visit that showed the page", moment(page.last_visit_s)],
    ["Last outcome of any kind", describeOutcome(page)],
    ["Changes", `${count(page.changes)} in ${plural(page.visits, "visit")} after the first`],
    ["Expected changes", `${number(page.rate)} per cycle`],
    ["Failures in a row", count(page.failures)],
    page.gone > 0 && ["Gone in a row", count(page.gone)],
    page.etag !== null && ["ETag", page.etag],
    page.last_modified !== null && ["Last-Modified", page.last_modified],
    ["Leased", page.lease_until_s === null ? "no" : `until ${moment(page.lease_until_s)}`],
    ["Visit requested", page.asked_for ? "yes" : "no"],
    ["Forbidden by robots.txt", page.robots_denied ? "yes" : "no"],
    ["Importance, cost", `${number(page.importance)}, ${number(page.cost)}`],
  ];
  return html`
    <dl class="facts history">
      ${facts.filter(Boolean).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>
  `;
}

function describeOutcome(page) {
  if (page.last_outcome_s === null) return "none";
  return `${moment(page.last_outcome_s)}, ${page.succeeded ? "fetched" : "not fetched"}`;
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

function describePlace({ position, of_eligible: of, is_estimate: isEstimate, in_batch: inBatch }) {
  if (position === null) return "not in the ranking";
  const place = `${isEstimate ? "about " : ""}${count(position)} of ${count(of)}`;
  return inBatch ? `${place}, in the next batch of 1,000` : place;
}

function describeEligibility({ eligible, eligible_from_s: from }) {
  if (eligible) return "now";
  return from === null ? "not by the clock alone" : `from ${moment(from)}`;
}

/** Shows how many changes each cause makes expect, and the weight that it has learned. */
function Causes({ causes }) {
  return html`
    <table class="terminals causes">
      <thead>
        <tr><th>Cause</th><th class="right">Expected changes</th><th class="right">Weight</th></tr>
      </thead>
      <tbody>
        ${Object.entries(causes).map(
          ([name, { expected, weight }]) => html`
            <tr key=${name} class=${expected > 0 ? "" : "muted"}>
              <th scope="row"><code>${name}</code></th>
              <td class="right">${number(expected)}</td>
              <td class="right">${number(weight)}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  `;
}

/** Shows the terminals that the formula reads, then the others. */
function Terminals({ terminals, formula }) {
  const read = new Set(formula.match(/[A-Za-z_]\w*/g) ?? []);
  const rows = Object.entries(terminals).sort(([one], [other]) => read.has(other) - read.has(one));
  return html`
    <table class="terminals">
      <tbody>
        ${rows.map(
          ([name, value]) => html`
            <tr key=${name} class=${read.has(name) ? "" : "muted"}>
              <th scope="row"><code>${name}</code></th>
              <td class="right">${number(value)}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  `;
}
