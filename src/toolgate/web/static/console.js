// What the pages need beyond htmx: hearing of changes, copying a text. Without it all still works.
"use strict";

(() => {
  // Parts of pages that show a state say which change concerns them: hx-trigger="servers-changed from:body".
  const place = document.body.dataset.events;
  if (place && document.querySelector("[data-live]") && "EventSource" in window) {
    const source = new EventSource(place);
    for (const name of ["servers-changed", "tools-changed", "access-changed", "approvals-changed"]) {
      source.addEventListener(name, () => document.body.dispatchEvent(new CustomEvent(name)));
    }
    window.addEventListener("pagehide", () => source.close());
  }

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
