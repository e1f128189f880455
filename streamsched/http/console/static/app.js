// The page: its head, alerts and parts; who is not signed in sees the form for a token.

import { findAlerts } from "./alerts.js";
import { onRefused, token } from "./api.js";
import { Explanation } from "./explanation.js";
import { Figures } from "./figures.js";
import { Foot } from "./foot.js";
import { count, duration, moment } from "./format.js";
import { Formula } from "./formula.js";
import { Hosts } from "./hosts.js";
import { useStats } from "./polling.js";
import { html, useEffect, useMemo, useState } from "./preact.js";
import { Ranking } from "./ranking.js";
import { Rules } from "./rules.js";
import { SignIn } from "./signin.js";
import { Surges } from "./surges.js";
import { Week } from "./week.js";

const PARTS = [
  ["now", "Now"],
  ["ranking", "Ranking"],
  ["formula", "Formula"],
  ["hosts", "Hosts"],
  ["rules", "Rules"],
  ["week", "Week"],
  ["bulk", "Surges and signals"],
];

const QUARTER_S = 900; // offsets of local times are whole quarters of an hour

/** The console, or the form for a token as soon as a call has been refused. */
export function App() {
  const [refusal, setRefusal] = useState(null);
  useEffect(() => onRefused(setRefusal), []);
  if (refusal) return html`<${SignIn} error=${refusal} onToken=${() => setRefusal(null)} />`;

  const signOut = () => {
    token.forget();
    setRefusal({ status: 401 });
  };
  return html`<${Console} onSignOut=${token.get() ? signOut : null} />`;
}

function Console({ onSignOut }) {
  const figures = useStats();
  const [explained, setExplained] = useState(null);
  const [week, setWeek] = useState({ kind: "all", name: "" });
  const { stats, samples } = figures;
  const may = (scope) => stats?.scopes.includes(scope) ?? false;
  const quarter = stats && QUARTER_S * Math.floor(stats.now / QUARTER_S);

  const showWeek = (url) => {
    setExplained(null);
    setWeek({ kind: "url", name: url });
    document.getElementById("week").scrollIntoView();
  };

  // Nodes that stay the same are not compared again: most answers bring neither a new sample nor a new formula.
  const now = useMemo(() => stats && html`<${Figures} stats=${stats} samples=${samples} />`, [samples, !stats]);
  const parts = useMemo(
    () =>
      stats &&
      html`
        <${Ranking} onExplain=${setExplained} />
        <${Formula} formula=${stats.formula} />
        <${Hosts} now=${quarter} mayChange=${may("admin")} />
        <${Rules} mayChange=${may("admin")} />
        <${Week} now=${quarter} target=${week} onTarget=${setWeek} />
        <${Surges} />
      `,
    [stats?.formula, week, quarter, stats?.scopes.join()],
  );

  return html`
    <${Head} figures=${figures} onSignOut=${onSignOut} />
    <main>
      <${Alerts} figures=${figures} />
      ${stats && stats.latest.pages === 0 && html`<${Empty} />`}
      <section id="now" aria-label="Now">${now ?? html`<${Waiting} error=${figures.error} />`}</section>
      ${parts}
    </main>
    ${stats && html`<${Foot} version=${stats.version} />`}
    <${Explanation} url=${explained} mayAsk=${may("crawl")} onClose=${() => setExplained(null)} onWeek=${showWeek} />
  `;
}

function Head({ figures, onSignOut }) {
  const { stats } = figures;
  const state = describeState(figures);
  return html`
    <header class="head">
      <div class="title">
        <h1>streamsched</h1>
        <span class=${`state ${state.level}`} role="status">${state.text}</span>
        ${stats && html`<span class="muted wide">${count(stats.latest.pages)} pages</span>`}
        ${stats && html`<span class="muted wide">up ${duration(stats.now - stats.started_s)}</span>`}
        ${stats && html`<span class="muted wide">${moment(stats.now)} UTC</span>`}
        ${onSignOut && html`<button class="plain" onClick=${onSignOut}>Sign out</button>`}
      </div>
      <nav aria-label="Parts of the page">
        ${PARTS.map(([id, name]) => html`<a href=${`#${id}`}>${name}</a>`)}
      </nav>
    </header>
  `;
}

function describeState({ stats, error }) {
  if (error) return { level: "error", text: error.problem.code === "stopping" ? "stopping" : "no answer" };
  if (!stats) return { level: "note", text: "connecting" };
  const isWhole = !stats.trouble && !stats.missing?.length;
  return isWhole ? { level: "fine", text: "working" } : { level: "error", text: "in trouble" };
}

function Alerts({ figures }) {
  const [nowMs, setNow] = useState(Date.now());
  useEffect(() => setNow(Date.now()), [figures]);
  const alerts = findAlerts(figures, nowMs);
  if (!figures.stats && !alerts.length) return null;
  if (!alerts.length) return html`<p class="calm" role="status">Nothing needs attention.</p>`;
  return html`
    <ul class="alerts" role="alert">
      ${alerts.map(({ level, text }) => html`<li key=${text} class=${level}><b>${level}</b> ${text}</li>`)}
    </ul>
  `;
}

const Waiting = ({ error }) =>
  error
    ? html`<p class="notice">There are no figures yet: ${error.message}.</p>`
    : html`<p class="muted">Loading…</p>`;

function Empty() {
  const order = `curl ${location.origin}/v1/discover -H 'content-type: application/json' \\
  -d '{"urls": ["https://example.org/"]}'`;
  return html`
    <section class="card empty">
      <h2>No page is known yet</h2>
      <p>A stream of crawl outcomes adds pages, and so does this call:</p>
      <pre><code>${order}</code></pre>
    </section>
  `;
}
