"use strict";
// Draws the curves in the colours of the present scheme, and again when the reader's system changes it.
(() => {
  const target = document.getElementById("curves");
  const text = document.getElementById("curve-data").textContent;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");

  const paint = (item) => {
    const [front, dim, line] = dark.matches ? ["#e3e7ec", "#9aa4b0", "#343c46"] : ["#1c2128", "#59626d", "#d5dae0"];
    const axis = {
      axis_line_color: dim, major_tick_line_color: dim, minor_tick_line_color: null,
      major_label_text_color: dim, axis_label_text_color: dim,
    };
    const looks = {
      LinearAxis: axis,
      LogAxis: axis,
      Grid: { grid_line_color: line },
      Title: { text_color: front },
      Legend: { label_text_color: front, background_fill_color: null, border_line_color: null },
      Span: { line_color: dim },
      Figure: { outline_line_color: line },
      // With a finger the page has to scroll: zooming then is a button away.
      Toolbar: touch.matches ? { active_drag: null } : {},
    };
    const visit = (value) => {
      if (value === null || typeof value !== "object") return;
      if (value.type === "object" && looks[value.name]) {
        value.attributes = Object.assign(value.attributes || {}, looks[value.name]);
      }
      Object.values(value).forEach(visit);
    };
    visit(item);
    return item;
  };

  let drawn = Promise.resolve();
  const draw = () => {
    drawn = drawn.then(async () => {
      target.replaceChildren();
      await Bokeh.embed.embed_item(paint(JSON.parse(text)));
      target.dataset.drawn = dark.matches ? "dark" : "light";
    });
  };
  Bokeh.set_log_level("error");
  dark.addEventListener("change", draw);
  draw();
})();
