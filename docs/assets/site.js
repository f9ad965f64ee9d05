// Draws the blocks in Mermaid's language, by the copy of Mermaid that `make docs` puts beside this
// file. Without it the blocks stay text.

const here = document.currentScript.src;

async function draw() {
  const blocks = document.querySelectorAll("pre.drawing");
  if (!blocks.length) return;
  await new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = new URL("mermaid.min.js", here);
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });
  const texts = [...blocks].map((block) => block.textContent);
  const show = () => {
    const dark = document.body.dataset.mdColorScheme === "slate";
    mermaid.initialize({ startOnLoad: false, theme: dark ? "dark" : "neutral" });
    blocks.forEach(async (block, index) => {
      const { svg } = await mermaid.render(`drawing-${index}`, texts[index]);
      block.innerHTML = svg;
    });
  };
  show();
  new MutationObserver(show).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
}

draw();
