// Asks for a change of the job, behind a second confirmation; what becomes of it comes with the beats.
"use strict";
{
  const wordOf = fetch("word").then((answer) => (answer.ok ? answer.text() : "")).catch(() => "");
  const WHAT = {
    scale: () => ({ trainers: Number($("ask-trainers").value) }),
    pace: () => ({ pace: $("ask-pace").value.trim() }),
    checkpoint: () => ({}),
    interrupt: () => ({}),
  };
  const SURE = {
    scale: (asked) => [`${asked.trainers} trainers? Those that go finish their step first.`, "Scale"],
    pace: (asked) => [`Go on with the pace ${asked.pace}? It changes when all have finished their tasks.`, "Change pace"],
    checkpoint: () => ["Take a checkpoint now?", "Take it"],
    interrupt: () => ["End this run? Trainers leave and a checkpoint is taken first; paceline run --resume goes on with it.", "Interrupt"],
  };
  const MARKS = { waits: "\u2026", done: "\u2713", refused: "\u2717" };
  const CLASSES = { waits: "busy", done: "good", refused: "bad" };
  let asking = null, mayAsk = false, isSuggested = false, refused = "";
  wordOf.then((word) => { mayAsk = Boolean(word); });

  function suggest(now) {  // once, so that nobody is disturbed who types
    if (isSuggested || !now.head.pace) return;
    isSuggested = true;
    $("ask-pace").value = now.head.pace;
    if (!now.more_roles) $("ask-trainers").value = now.roles.filter((role) => role.role === "trainer").length;
  }
  document.addEventListener("beat", ({ detail: now }) => {
    $("s-ask").hidden = !mayAsk || now.head.is_over;
    suggest(now);
    const told = now.asked.map((one) => [one.state, one.reason ? `${one.text}: ${one.reason}` : one.text]);
    if (refused) told.push(["refused", refused]);
    $("asked").replaceChildren(...told.map(([state, text]) => make("li", `${MARKS[state]} ${text}`, CLASSES[state])));
  });
  for (const button of document.querySelectorAll("[data-ask]")) {
    button.addEventListener("click", () => {
      asking = { ask: button.dataset.ask, ...WHAT[button.dataset.ask]() };
      const [text, yes] = SURE[asking.ask](asking);
      $("sure-text").textContent = text;
      $("sure-yes").textContent = yes;
      $("sure").showModal();
    });
  }
  $("sure-no").addEventListener("click", () => $("sure").close());
  $("sure-yes").addEventListener("click", async () => {
    $("sure").close();
    refused = "";
    try {
      const answer = await fetch("ask", { method: "POST", headers: { "Paceline-Word": await wordOf }, body: JSON.stringify(asking) });
      if (!answer.ok) refused = await answer.text();
    } catch {
      refused = "the dashboard itself does not answer";
    }
  });
}
