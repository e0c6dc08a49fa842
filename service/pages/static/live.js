// Keeps the page of a job up to date. Without this script the page loads itself anew.
"use strict";

const job = document.getElementById("job");
const log = job.querySelector("[data-log]");
const finals = ["succeeded", "failed", "cancelled"];
const events = new EventSource(job.dataset.events);

events.addEventListener("job", (event) => {
  const now = JSON.parse(event.data);
  const state = job.querySelector("[data-state] .state");
  state.textContent = now.state;
  state.className = `state ${now.state}`;
  for (const figure of job.querySelectorAll("[data-figure]")) {
    figure.textContent = now.progress[figure.dataset.figure].toLocaleString("en");
  }
  if (now.progress.variants) {
    document.getElementById("progress").value = now.progress.variants_done;
  }
  if (finals.includes(now.state)) {
    events.close();
    location.reload(); // for the results, and the time at which it ended
  }
});

events.addEventListener("log", (event) => {
  if (!log) return;
  const line = JSON.parse(event.data);
  const item = document.createElement("li");
  const time = document.createElement("time");
  time.dateTime = line.when;
  time.textContent = `${new Date(line.when).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  item.append(time, ` ${line.text}`);
  log.append(item);
  log.parentElement.scrollTop = log.parentElement.scrollHeight;
});

// The browser asks again by itself, but not for a stream that was refused.
let again;
events.addEventListener("error", () => {
  if (events.readyState === EventSource.CLOSED) again = setTimeout(() => location.reload(), 5000);
});

// Whoever leaves is let go: a reload would win over the page that was asked for.
addEventListener("beforeunload", () => {
  events.close();
  clearTimeout(again);
});
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload(); // came back to a page that no longer listens
});
