for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "copied";
    } catch { // no clipboard access: select the text instead
      getSelection().selectAllChildren(text);
      button.textContent = "press Ctrl+C";
    }
  });
}
