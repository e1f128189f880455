// The top of the ranking, and a form to explain any page.

import { number } from "./format.js";
import { usePolled } from "./polling.js";
import { html, useState } from "./preact.js";
import { Loaded, Nothing } from "./states.js";

const TIERS = ["", "overdue", "asked for"];
const SIZES = [10, 25, 100];

/** Shows the best pages that may be visited now. `onExplain`: called with the URL of the page to explain. */
export function Ranking({ onExplain }) {
  const [size, setSize] = useState(SIZES[0]);
  const polled = usePolled("/v1/rank", { k: size }, 10);
  return html`
    <section id="ranking" aria-labelledby="ranking-title">
      <div class="bar">
        <h2 id="ranking-title">Next in the ranking</h2>
        <${Question} onExplain=${onExplain} />
      </div>
      <div class="card">
        <${Loaded} polled=${polled}>
          ${({ pages }) =>
            pages.length
              ? html`<${Pages} pages=${pages} onExplain=${onExplain} />`
              : html`<${Nothing}>No page may be visited now.<//>`}
        <//>
        <p class="sizes">
          ${polled.value?.pages.length > 0 && html`<span class="muted">Click a page to see why it is there.</span>`}
          ${SIZES.map(
            (one) => html`
              <button class="plain" aria-pressed=${one === size} onClick=${() => setSize(one)}>Top ${one}</button>
            `,
          )}
        </p>
      </div>
    </section>
  `;
}

function Question({ onExplain }) {
  const [url, setUrl] = useState("");
  const submit = (event) => {
    event.preventDefault();
    onExplain(url.trim());
  };
  return html`
    <form class="ask" role="search" onSubmit=${submit}>
      <input type="url" required placeholder="https://…" aria-label="URL of a page" value=${url}
        onInput=${(event) => setUrl(event.target.value)} />
      <button type="submit">Explain</button>
    </form>
  `;
}

function Pages({ pages, onExplain }) {
  return html`
    <table class="pages">
      <thead>
        <tr><th class="right">place</th><th>page</th><th class="right">score</th></tr>
      </thead>
      <tbody>
        ${pages.map(
          (page, place) => html`
            <tr key=${page.url}>
              <td class="right muted">${place + 1}</td>
              <td>
                <button class="link" onClick=${() => onExplain(page.url)} title="Why is it here?">${page.url}</button>
                ${page.tier > 0 && html`<span class="tag">${TIERS[page.tier] ?? page.tier}</span>`}
              </td>
              <td class="right">${number(page.score)}</td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  `;
}
