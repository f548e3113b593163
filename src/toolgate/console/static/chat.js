// The chat page: follows a running turn, and reads files that are uploaded. Without it all still works.
"use strict";

(() => {
  const make = (tag, text, kind) => Object.assign(document.createElement(tag), { textContent: text, className: kind ?? "" });

  const live = document.querySelector("[data-run]");
  if (live && "EventSource" in window) {
    const part = (name) => live.querySelector(`[data-part="${name}"]`);
    const steps = part("steps"), answer = part("answer"), thoughts = part("reasoning");
    const calls = new Map();
    const source = new EventSource(live.dataset.run);
    const on = (kind, show) => source.addEventListener(kind, (event) => show(JSON.parse(event.data)));
    on("stream", (text) => answer.append(text));
    on("reasoning", (text) => { thoughts.hidden = false; thoughts.querySelector("p").append(text); });
    on("mcp_tool", (call) => {
      const key = `${call.tool} ${JSON.stringify(call.arguments)}`;
      const item = calls.get(key) ?? steps.appendChild(make("li", ""));
      const details = make("details", "");
      const words = { started: "running", completed: "done", failed: "failed" }[call.status] ?? call.status;
      details.append(make("summary", `${call.tool}: ${words}`), make("pre", JSON.stringify(call.arguments, null, 2)));
      if (call.result) details.append(make("pre", call.result));
      item.replaceChildren(details);
      call.status === "started" ? calls.set(key, item) : calls.delete(key);
    });
    on("vs_metadata", (found) => steps.append(make("li", `${found.num_documents} ${found.num_documents === 1 ? "passage" : "passages"} for “${found.context_input}”${found.searched_tables?.length ? ` in ${found.searched_tables.join(", ")}` : ""}`)));
    on("grade", (grade) => { if (grade.performed) steps.append(make("li", grade.relevant === "yes" ? "The passages are relevant" : "The passages are not relevant")); });
    on("approval", (call) => { if (call.status === "waiting") steps.append(make("li", `${call.tool} is waiting for approval`)); });
    on("retry", () => steps.append(make("li", "The model did not answer; retrying")));
    on("compaction", () => steps.append(make("li", "Earlier messages were compacted")));
    on("sources", ({ sources }) => {
      for (const { number, document: name, heading, page } of sources) part("sources").append(make("li", `[${number}] ${name}${heading ? `, “${heading}”` : ""}${page ? `, page ${page}` : ""}`));
    });
    on("token_usage", (usage) => steps.append(make("li", `${usage.total_tokens.toLocaleString()} tokens`)));
    source.addEventListener("error", (event) => {
      if (event.data) steps.append(make("li", JSON.parse(event.data).message, "bad"));
    });
    source.addEventListener("end", () => { source.close(); location.replace(live.dataset.done); });
    window.addEventListener("pagehide", () => source.close());
  }

  // Enter sends, Shift+Enter makes a line.
  document.querySelector("[data-compose] textarea")?.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });

  // A form has text alone: the file goes along as base64.
  for (const form of document.querySelectorAll("form[data-upload]")) {
    const file = form.querySelector("[data-file]"), name = form.elements.source;
    file.addEventListener("change", async () => {
      const [chosen] = file.files;
      file.setCustomValidity(chosen?.size > 2 * 2 ** 20 ? "The file is larger than 2 MB." : "");
      if (!chosen || !file.checkValidity()) return file.reportValidity();
      name.value = chosen.name;
      const bytes = new Uint8Array(await chosen.arrayBuffer());
      let text = "";
      for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
      form.elements.content.value = btoa(text);
    });
  }
})();
