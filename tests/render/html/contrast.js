// The texts whose contrast with what is behind them is too low (WCAG 2), and how many texts were looked at.
(() => {
  const channel = value => { value /= 255; return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = text => { const n = (text.match(/[\d.]+/g) || []).map(Number); return n.length < 3 ? [0, 0, 0, 0] : [...n.slice(0, 3), n[3] ?? 1]; };
  const over = (top, below) => top.slice(0, 3).map((value, place) => value * top[3] + below[place] * (1 - top[3]));
  const wrong = [];
  let seen = 0;
  document.querySelectorAll('details').forEach(each => { each.open = true; });
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.textContent.trim() || element.closest('title')) continue;
    const style = getComputedStyle(element), range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    const inside = element.closest('.scroll'), frame = inside && inside.getBoundingClientRect();
    const x = box.left + box.width / 2, y = box.top + box.height / 2;
    if (frame && (x > frame.right || x < frame.left)) continue;
    const layers = document.elementsFromPoint(x, y).filter(each => each.tagName !== 'text' && each.tagName !== 'tspan');
    let ground = [255, 255, 255];
    for (const layer of layers.reverse()) {
      const css = getComputedStyle(layer);
      const drawn = layer instanceof SVGElement && layer.tagName !== 'svg' && layer.tagName !== 'g';
      const paint = parse(drawn ? (css.fill === 'none' ? '' : css.fill) : css.backgroundColor);
      paint[3] *= drawn ? +css.fillOpacity : 1;
      ground = over(paint, ground);
    }
    const ink = over(parse(element.closest('svg') ? style.fill : style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((one, two) => two - one);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && +style.fontWeight >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    seen += 1;
    if (ratio < (large ? 3 : 4.5)) wrong.push(`${ratio.toFixed(2)}: ${node.textContent.trim().slice(0, 40)} (${element.className.baseVal ?? element.className})`);
  }
  return {wrong, seen};
})()
