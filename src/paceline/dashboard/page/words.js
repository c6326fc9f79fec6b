// What both pages, that of a job and that of all, say numbers, times and states with. All text of others is set as text, never as markup.
"use strict";
const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const STATES = { running: "good", trained: "good", finished: "good", complete: "good", failed: "bad", waiting: "busy" };

function make(tag, text, classes) {
  const one = document.createElement(tag);
  if (text !== undefined) one.textContent = text;
  if (classes) one.className = classes;
  return one;
}
function lasting(s, span = 90) {
  if (s === null || s === undefined) return "";
  if (span < 10) return `${s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
}
function shown(value) {
  if (value === null || value === undefined) return "not finite";
  return Math.abs(value) >= 1000 ? number.format(value) : String(Number(value.toPrecision(4)));
}

// Hears beats while the page is seen: a browser has six connections for all pages of a dashboard.
function hear({ opened, beat, isOver }) {
  let source = null, beat_ms = 0;
  const complain = (text) => { $("silent").hidden = false; $("silent").textContent = text; };
  function open() {
    beat_ms = performance.now();
    source = new EventSource("beats");
    source.addEventListener("open", opened);
    source.addEventListener("beat", (event) => {
      beat_ms = performance.now();
      beat(JSON.parse(event.data));
    });
    source.addEventListener("error", () => { if (!isOver()) complain("the dashboard itself does not answer"); });
  }
  function turn() {
    if (document.hidden && source) {
      source.close();
      source = null;
      document.title = document.title.replace(/^.*? - /, "");  // a state that nobody hears of is none
    } else if (!document.hidden && !source) open();
  }
  document.addEventListener("visibilitychange", turn);
  setInterval(() => {
    const s = (performance.now() - beat_ms) / 1000;
    if (source && s > 5 && !isOver()) complain(`no beat of the dashboard for ${lasting(s)}`);
  }, 1000);
  turn();
}
