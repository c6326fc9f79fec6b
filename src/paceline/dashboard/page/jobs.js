// Shows what /beats tells of all jobs of a folder; a row stays where it is, so that a link keeps the focus.
"use strict";
const moment = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const CLASSES = { runs: "good", ended: "calm", died: "bad", unread: "bad" };
const rows = new Map();  // {name: its cells, and what they show}

function put(one, text) { if (one.textContent !== text) one.textContent = text; }

const LABELS = ["", "", "records", "records/s", "loss", "pace", "trainers", "servers", "begun", "lasted"];  // where there is no room for a head

function newRow(name) {
  const body = make("tbody"), row = make("tr"), more = make("tr", undefined, "note"), note = make("td");
  const link = make("a", name), bar = make("progress"), state = make("span", "", "chip"), code = make("span", "", "faint"), records = make("span"), begun = make("time");
  link.href = `job/${encodeURIComponent(name)}/`;
  bar.max = 1;
  bar.setAttribute("aria-label", `records trained, of all of ${name}`);
  const cells = LABELS.map((label, n) => make("td", undefined, [2, 3, 4, 6, 7, 9].includes(n) ? "n" : ""));
  LABELS.forEach((label, n) => { cells[n].dataset.label = label; });
  cells[0].append(link);
  cells[1].append(state, " ", code);
  cells[2].append(records, bar);
  cells[8].append(begun);
  row.append(...cells);
  note.colSpan = LABELS.length;
  more.append(note);
  body.append(row, more);
  return { body, cells, more, note, bar, state, code, records, begun, told: null };
}

function fill(one, told) {
  const is_silent = told.silent_s !== undefined, cells = one.cells;
  one.told = told;
  put(one.state, is_silent ? "no answer" : told.state);
  one.state.className = `chip ${is_silent ? "bad" : told.kind === "ended" ? STATES[told.state] || "calm" : told.state === "starting" ? "busy" : CLASSES[told.kind]}`;
  put(one.code, told.code === undefined ? "" : `exit ${told.code}`);
  put(one.note, is_silent ? `no answer for ${lasting(told.silent_s)}${told.note ? `: ${told.note}` : ""}` : told.note || "");
  one.more.hidden = !one.note.textContent;
  const share = told.total ? told.records / told.total : 0, percent = share > 0 && share < 0.1 ? (100 * share).toFixed(1) : Math.floor(100 * share);
  put(one.records, told.records === undefined ? "" : number.format(told.records) + (told.total ? ` of ${number.format(told.total)} (${percent} %)` : ""));
  one.bar.hidden = !told.total;
  one.bar.value = share;
  put(cells[3], told.rate === undefined || told.rate === null ? "" : number.format(told.rate));
  const [what, value] = told.logged || [];
  put(cells[4], what === undefined ? "" : (what === "loss" ? "" : `${what} `) + shown(value));
  cells[4].dataset.label = what === "loss" ? what : "";
  put(cells[5], told.pace || "");
  put(cells[6], told.trainers === undefined ? "" : number.format(told.trainers));
  put(cells[7], told.servers === undefined ? "" : number.format(told.servers));
  put(one.begun, told.begun_t ? moment.format(new Date(1000 * told.begun_t)) : "");
  if (told.begun_t) one.begun.dateTime = new Date(1000 * told.begun_t).toISOString();
}

function showList({ folder, rows: list, left_out: leftOut, trouble }) {
  const running = list.filter((told) => told.kind === "runs").length;
  const counts = [[running, "running"], [list.filter((told) => told.silent_s !== undefined).length, "of them without an answer"],
    [list.filter((told) => told.kind === "died").length, "died without a word"], [list.filter((told) => told.kind === "ended").length, "ended"]];
  document.title = `${running} running - ${folder}`;
  put($("folder"), folder);
  put($("answer"), trouble || counts.filter(([count]) => count).map(([count, what]) => `${number.format(count)} ${what}`).join(", ") || "no job is here yet");
  put($("more"), leftOut ? `and ${number.format(leftOut)} older ones, which are not shown` : "");
  const here = new Set(list.map((told) => told.name));
  for (const [name, one] of rows) if (!here.has(name)) { one.body.remove(); rows.delete(name); }
  let next = $("head").nextElementSibling;
  for (const told of list) {
    if (!rows.has(told.name)) rows.set(told.name, newRow(told.name));
    const one = rows.get(told.name);
    if (one.body === next) next = next.nextElementSibling;
    else $("jobs").insertBefore(one.body, next);
    fill(one, told);
  }
}

let beats = 0;
hear({
  opened: () => {},
  beat: ({ t, jobs }) => {
    $("silent").hidden = true;
    if (jobs) showList(jobs);
    for (const { told, cells } of rows.values()) {
      const lasted_s = told.kind === "runs" ? Math.max(0, t - told.begun_t) : told.lasted_s;
      put(cells[9], lasting(lasted_s));
      for (const cell of cells) cell.classList.toggle("none", !cell.textContent);
    }
    document.body.dataset.beats = String(++beats);
  },
  isOver: () => false,
});
