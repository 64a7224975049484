// Everything about the structure of the page that is wrong for its readers, as texts.
(() => {
  const wrong = [];
  const all = selector => [...document.querySelectorAll(selector)];
  if (!document.title) wrong.push('no title');
  if (!document.documentElement.lang) wrong.push('no language');
  if (all('main').length !== 1) wrong.push('not one main');
  if (all('h1').length !== 1) wrong.push('not one h1');
  let before = 0;
  for (const heading of all('h1, h2, h3, h4')) {
    const level = +heading.tagName[1];
    if (level > before + 1) wrong.push(`h${level} follows h${before}: ${heading.textContent.trim()}`);
    if (!heading.textContent.trim()) wrong.push('empty heading');
    before = level;
  }
  for (const picture of all('svg, img')) {
    if (picture.getAttribute('aria-hidden') === 'true') continue;
    const name = document.getElementById(picture.getAttribute('aria-labelledby') || '');
    if (picture.getAttribute('role') !== 'img' || !name || name.textContent.trim().length < 8) wrong.push('picture without a text');
  }
  for (const table of all('table')) {
    if (!table.caption || !table.querySelector('th[scope=col]')) wrong.push('table without caption or headers');
  }
  for (const region of all('[role=region]')) if (!region.getAttribute('aria-label')) wrong.push('region without a name');
  for (const link of all('a')) {
    if (!link.textContent.trim()) wrong.push('link without a text');
    const target = link.getAttribute('href');
    if (target.startsWith('#') && !document.getElementById(target.slice(1))) wrong.push(`link to nowhere: ${target}`);
  }
  const ids = all('[id]').map(each => each.id);
  if (new Set(ids).size !== ids.length) wrong.push('an id stands twice');
  return wrong;
})()
