// What the pages need beyond htmx: live parts, palette, keyboard, selection, copying. Without it all still works.
"use strict";

(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const isTyping = (target) => target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");

  // Parts of pages that show a state say which change concerns them: hx-trigger="servers-changed from:body".
  const place = document.body.dataset.events;
  if (place && document.querySelector("main [data-live]") && "EventSource" in window) {
    const source = new EventSource(place);
    for (const name of ["servers-changed", "tools-changed", "access-changed", "approvals-changed", "calls-changed"]) {
      source.addEventListener(name, () => document.body.dispatchEvent(new CustomEvent(name)));
    }
    window.addEventListener("pagehide", () => source.close());
  }

  // A part that could not be renewed stays as it was, and that is said.
  const stale = document.getElementById("stale");
  const since = new Date().toLocaleTimeString();
  const reasons = { 401: "You are no longer logged in.", 403: "You no longer have access to this page.", 404: "This page no longer exists." };
  const say = (text) => {
    const again = Object.assign(document.createElement("a"), { href: location.href, textContent: "Reload" });
    stale.replaceChildren(`${text} `, again);
    stale.hidden = false;
  };
  const outdated = (status) => say(`${reasons[status] ?? "Cannot refresh this page: the gateway or its store is not responding."} It shows data from ${since}.`);
  document.addEventListener("htmx:before:request", (event) => {
    const part = event.detail.ctx?.sourceElement;
    const fields = part?.matches("[data-live]") ? all("input, textarea", part) : [];
    const isTyped = (field) => field.type !== "checkbox" && field.value !== field.defaultValue;
    if (!fields.some((field) => isTyped(field) || field.checked !== field.defaultChecked)) return;
    event.preventDefault(); // what is being typed or selected would be lost
    if (fields.some(isTyped)) say("The data has changed since you started typing. The page will refresh when you submit the form.");
  });
  document.addEventListener("htmx:after:request", (event) => {
    const ctx = event.detail.ctx;
    const status = ctx?.response?.status ?? 0;
    if (status >= 400) outdated(status);
    else if (status && ctx.sourceElement?.matches("[data-live]")) stale.hidden = true;
    // The address says what a filter shows, so that it can be shared and reloaded.
    if (status < 400 && ctx?.sourceElement?.closest("[data-filter]")) {
      const url = new URL(ctx.request.action, location.href);
      for (const [name, value] of [...url.searchParams]) if (!value) url.searchParams.delete(name);
      history.replaceState(history.state, "", url);
    }
  });
  document.addEventListener("htmx:error", () => outdated(0));

  // Messages about what was done go away by themselves, but not while they are looked at.
  const flash = document.querySelector(".flash[role=status]");
  if (flash) {
    flash.classList.add("toast");
    const dismiss = () => flash.remove();
    flash.querySelector("button")?.addEventListener("click", dismiss);
    let timer = setTimeout(dismiss, 8000);
    flash.addEventListener("pointerenter", () => clearTimeout(timer));
    flash.addEventListener("pointerleave", () => (timer = setTimeout(dismiss, 3000)));
  }

  // A button that copies what stands in the element it names, or a text of its own.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const element = document.getElementById(button.dataset.copy);
    const before = button.innerHTML;
    try {
      await navigator.clipboard.writeText(element ? element.textContent.trim() : button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      if (element) getSelection().selectAllChildren(element);
      button.textContent = element ? "Selected: press Ctrl+C" : "Copying failed";
    }
    setTimeout(() => (button.innerHTML = before), 2000);
  });

  // Selected rows: a bar with what can be done with them.
  const showSelection = () => {
    for (const bar of all(".bulk")) {
      const picked = all(`input[form="${bar.dataset.form}"][type=checkbox]:checked`);
      bar.classList.toggle("shown", picked.length > 0);
      const count = bar.querySelector("[data-count]");
      if (count) count.textContent = `${picked.length} selected`;
    }
  };
  document.addEventListener("change", (event) => {
    const every = event.target.closest("input[data-every]");
    if (every) for (const box of all(`input[form="${every.dataset.every}"]`)) box.checked = every.checked;
    showSelection();
  });
  window.addEventListener("pageshow", showSelection);

  // What would remove something asks first.
  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // Palette
  const palette = document.getElementById("palette");
  const help = document.getElementById("help");
  const openPalette = () => {
    if (!palette || palette.open) return;
    palette.showModal();
    const input = palette.querySelector("input");
    input.value = "";
    input.dispatchEvent(new CustomEvent("open"));
    input.focus();
  };
  document.addEventListener("click", (event) => {
    if (event.target === palette || event.target === help) event.target.close();
    if (event.target.closest("[data-help]")) help?.showModal();
    if (!event.target.closest("[data-palette]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openPalette();
  });
  // Enter may come before the answer to the last letters: what is listed until then is something else.
  let isEntered = false;
  const openFirst = () => {
    const list = palette?.querySelector(".finds");
    if (!isEntered || list?.dataset.text !== palette.querySelector("input").value.trim()) return;
    isEntered = false;
    location.assign(list.querySelector("a").href);
  };
  palette?.addEventListener("submit", (event) => {
    event.preventDefault();
    isEntered = true;
    openFirst();
  });
  palette?.addEventListener("input", () => (isEntered = false));
  document.addEventListener("htmx:after:swap", openFirst);
  palette?.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const stops = [palette.querySelector("input"), ...all(".finds a", palette)];
    const at = stops.indexOf(document.activeElement);
    // Enter in the field opens the first hit, so that the first step down goes to the second.
    const step = event.key === "ArrowUp" ? -1 : at === 0 && stops.length > 2 ? 2 : 1;
    stops[Math.max(0, Math.min(stops.length - 1, at + step))].focus();
  });

  // Keys
  const box = document.getElementById("single-keys");
  const offKey = "toolgate-single-keys";
  if (box) {
    box.checked = localStorage.getItem(offKey) !== "off";
    box.addEventListener("change", () => localStorage.setItem(offKey, box.checked ? "on" : "off"));
  }
  let isGoing = false;
  const moveRow = (step) => {
    const links = all("main tbody tr, main .hit, main .gallery li, main .held").map((row) => row.querySelector("a, button")).filter((link) => link?.offsetParent);
    const row = document.activeElement?.closest("tr, .hit, .gallery li, .held");
    const at = links.findIndex((link) => row?.contains(link));
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + step))]?.focus();
  };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !box?.checked || document.querySelector("dialog[open]")) return;
    if (isGoing) {
      isGoing = false;
      const link = document.querySelector(`#nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) location.assign(link.href);
      return;
    }
    switch (event.key) {
      case "g":
        isGoing = true;
        setTimeout(() => (isGoing = false), 1500);
        break;
      case "/": {
        const field = document.querySelector("main input[type=search]");
        if (!field) return;
        event.preventDefault();
        field.select();
        field.focus();
        break;
      }
      case "j":
        moveRow(1);
        break;
      case "k":
        moveRow(-1);
        break;
      case "x": {
        const pick = document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]");
        pick?.click();
        break;
      }
      case "?":
        help?.showModal();
        break;
    }
  });
})();
