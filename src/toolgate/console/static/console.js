// What the pages need beyond htmx: hearing of changes, copying a text. Without it all still works.
"use strict";

(() => {
  // Parts of pages that show a state say which change concerns them: hx-trigger="servers-changed from:body".
  const place = document.body.dataset.events;
  if (place && document.querySelector("[data-live]") && "EventSource" in window) {
    const source = new EventSource(place);
    for (const name of ["servers-changed", "tools-changed", "access-changed", "approvals-changed", "calls-changed"]) {
      source.addEventListener(name, () => document.body.dispatchEvent(new CustomEvent(name)));
    }
    window.addEventListener("pagehide", () => source.close());
  }

  // On a phone the menu is moved: to where one is.
  document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // A part that could not be renewed stays as it was, and that is said.
  const stale = document.getElementById("stale");
  const since = new Date().toLocaleTimeString();
  const reasons = { 401: "Your session has ended.", 403: "You no longer have access to this page.", 404: "This page no longer exists." };
  const say = (text) => {
    const again = Object.assign(document.createElement("a"), { href: location.href, textContent: "Reload" });
    stale.replaceChildren(`${text} `, again);
    stale.hidden = false;
  };
  const outdated = (status) => say(`${reasons[status] ?? "This page cannot be refreshed: the gateway or its store does not answer."} It shows the state from ${since}.`);
  document.addEventListener("htmx:before:request", (event) => {
    const part = event.detail.ctx?.sourceElement;
    const fields = part?.matches("[data-live]") ? part.querySelectorAll("input, textarea") : [];
    if (![...fields].some((field) => field.value !== field.defaultValue)) return;
    event.preventDefault(); // what is being typed would be lost
    say("Something has changed since you started typing. The page refreshes after you send the form.");
  });
  document.addEventListener("htmx:after:request", (event) => {
    const status = event.detail.ctx?.response?.status ?? 0;
    if (status >= 400) outdated(status);
    else if (status) stale.hidden = true;
  });
  document.addEventListener("htmx:error", () => outdated(0));

  // A button that copies what stands in the element it names.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy).textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
      button.textContent = "Selected: press Ctrl+C";
    }
  });
})();
