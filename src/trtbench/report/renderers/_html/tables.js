// What all tables of pages do alike: find rows by words, and put them in order.
"use strict";
const tables = (() => {
  const collator = new Intl.Collator(undefined, { numeric: true });
  const missing = (value) => value === null || value === undefined;

  // Words are found anywhere, numbers only as a whole: 8 is batch 8, not resnet18.
  const matcher = (query) => {
    const tests = query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
      if (!/^\d+$/.test(word)) return (text) => text.includes(word);
      const whole = new RegExp(`(^|[^a-z0-9.])${word}($|[^a-z0-9.])`);
      return (text) => whole.test(text);
    });
    return (text) => tests.every((test) => test(text));
  };

  // What is not known comes last, whichever way the others go.
  const ordered = (rows, keyOf, down) => {
    const keys = new Map(rows.map((row) => [row, keyOf(row)]));
    return [...rows].sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const sign = typeof x === "number" && typeof y === "number" ? x - y : collator.compare(String(x), String(y));
      return down ? -sign : sign;
    });
  };
  return { matcher, ordered };
})();
