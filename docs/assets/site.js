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
  const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  const texts = [...blocks].map((block) => block.textContent);
  const show = () => {
    mermaid.initialize({
      startOnLoad: false,
      theme: "base",
      flowchart: { useMaxWidth: false, nodeSpacing: 25, rankSpacing: 30, padding: 8 },
      themeVariables: {
        fontSize: "12px",
        background: colour("--md-default-bg-color"),
        primaryColor: colour("--md-code-bg-color"),
        primaryTextColor: colour("--md-default-fg-color"),
        primaryBorderColor: colour("--md-default-fg-color--lighter"),
        lineColor: colour("--md-default-fg-color--lighter"),
        clusterBkg: colour("--md-default-bg-color"),
        clusterBorder: colour("--md-default-fg-color--lightest"),
        edgeLabelBackground: colour("--md-default-bg-color"),
      },
    });
    blocks.forEach(async (block, index) => {
      const { svg } = await mermaid.render(`drawing-${index}`, texts[index]);
      block.innerHTML = svg;
      // What is a little too wide becomes smaller, the rest is scrolled.
      const drawn = block.firstElementChild;
      const fits = drawn.width.baseVal.value < 1.4 * block.clientWidth;
      if (fits) Object.assign(drawn.style, { maxWidth: "100%", height: "auto" });
    });
  };
  show();
  new MutationObserver(show).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
}

draw();
