// A line over time, drawn by uPlot.

import { html, useEffect, useRef, useState } from "./preact.js";

const HEIGHT = 110;
const DARK = matchMedia("(prefers-color-scheme: dark)");

/**
 * Shows `values` over `times`, UTC epoch seconds; null leaves a gap.
 * `format`: of values; `most`: of the scale, if it is fixed; `onHover`: called with an index, null when it ends.
 */
export function Chart({ times, values, format, most, label, onHover }) {
  const place = useRef(null);
  const plot = useRef(null);
  const isDark = useDark();

  useEffect(() => {
    const box = place.current;
    plot.current = new uPlot(describe(box, format, most, onHover), [times, values], box);
    const observer = new ResizeObserver(() => plot.current.setSize({ width: box.clientWidth, height: HEIGHT }));
    observer.observe(box);
    return () => {
      observer.disconnect();
      plot.current.destroy();
    };
  }, [isDark]);

  useEffect(() => plot.current.setData([times, values]), [times, values]);

  return html`<div class="chart" ref=${place} role="img" aria-label=${label}></div>`;
}

function useDark() {
  const [isDark, setDark] = useState(DARK.matches);
  useEffect(() => {
    const follow = () => setDark(DARK.matches);
    DARK.addEventListener("change", follow);
    return () => DARK.removeEventListener("change", follow);
  }, []);
  return isDark;
}

function describe(box, format, most, onHover) {
  const style = getComputedStyle(box);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: color("muted"), font: "11px system-ui", ticks: { show: false } };
  const grid = { stroke: color("line"), width: 1 };
  return {
    width: box.clientWidth,
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 7, fill: color("accent") },
      sync: { key: "figures" },
    },
    scales: { x: { time: true }, y: { range: (_, low, high) => findRange(low, high, most) } },
    axes: [
      { ...axis, size: 22, space: 70, grid: { show: false }, values: (_, times) => nameTimes(times) },
      { ...axis, size: 46, space: 34, grid, values: (_, values) => values.map(format) },
    ],
    series: [{}, { stroke: color("accent"), width: 1.5, fill: color("accent-soft"), points: { show: false } }],
    hooks: { setCursor: [(self) => onHover?.(self.cursor.idx ?? null)] },
  };
}

/** Returns the scale of the values: from 0, and never empty. */
function findRange(low, high, most) {
  if (most !== undefined) return [0, most];
  return [0, high > 0 ? 1.1 * high : 1];
}

const MINUTES = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
const SECONDS = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: "UTC" });

/** Returns the labels of the time axis: with seconds if the minutes alone would repeat. */
function nameTimes(times) {
  const format = times.length > 1 && times[1] - times[0] < 60 ? SECONDS : MINUTES;
  return times.map((time) => format.format(1000 * time));
}
