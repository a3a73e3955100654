"""How a report looks: on a screen, in the dark, on a telephone and on paper."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --page: #ffffff; --card: #f6f8fa;
  --accent: #0072b2; --good: #1a7f37; --bad: #b35900; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9da7b1; --line: #3d444d; --page: #14181d; --card: #1d232a; --accent: #58b0e3;
    --good: #4ac26b; --bad: #e69f00; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem) 3rem; max-width: 72rem; background: var(--page);
  color: var(--ink); font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
p, ul { max-width: 46rem; }
p.lead { font-size: 1.1rem; margin-top: 0; color: var(--soft); overflow-wrap: anywhere; }
.note { border-left: .3rem solid var(--good); background: var(--card); padding: .6rem .9rem; margin: .6rem 0;
  max-width: 46rem; border-radius: .2rem; overflow-wrap: anywhere; }
.note.trouble, .note.caution { border-color: var(--bad); }
.note strong { display: block; }
.numbers { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; padding: 0; list-style: none;
  max-width: none; }
.numbers li { flex: 1 1 9rem; background: var(--card); border-radius: .4rem; padding: .7rem .9rem; color: var(--soft); }
.numbers b { display: block; font-size: 1.6rem; line-height: 1.2; color: var(--ink);
  font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .4rem 0; }
th, td { text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; white-space: nowrap; vertical-align: bottom; }
tbody th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.name, th.name, td.setting { overflow-wrap: anywhere; min-width: 7rem; max-width: 24rem; }
#given td.name { max-width: 38rem; }
td.setting { font-family: ui-monospace, Consolas, Menlo, monospace; font-size: .9rem; }
.bar { display: inline-block; width: 6rem; height: .7rem; background: var(--line); border-radius: .35rem;
  overflow: hidden; vertical-align: middle; }
.bar span { display: block; height: 100%; background: var(--accent); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
figure { margin: .6rem 0; }
figure img { display: block; width: 100%; height: auto; background: #ffffff; border-radius: .4rem;
  border: 1px solid var(--line); padding: .4rem; }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .3rem; max-width: 46rem; }
details { margin: .8rem 0; }
summary { cursor: pointer; color: var(--accent); }
footer { margin-top: 3rem; color: var(--soft); font-size: .9rem; }
/* Where a table would not fit beside itself, its rows become paragraphs, and every number gets its heading. */
@media (max-width: 44rem) {
  .stack, .stack tbody { display: block; }
  .stack thead, .stack .picture { display: none; }
  .stack tr { display: flex; flex-wrap: wrap; gap: 0 .9rem; padding: .35rem 0; border-bottom: 1px solid var(--line); }
  .stack th, .stack td { border: 0; padding: 0; min-width: 0; max-width: 100%; text-align: left; }
  .stack td[data-label]::before { content: attr(data-label) " "; color: var(--soft); }
  #given th, #settings th { flex-basis: 100%; color: var(--soft); } }
@media (max-width: 34rem) {
  figure.wide { overflow-x: auto; }
  figure.wide img { width: 38rem; }
  #diagnostics tr { display: grid; grid-template-columns: 1fr auto; border-bottom: 1px solid var(--line); }
  #diagnostics th, #diagnostics td { border: 0; padding-right: 0; }
  #diagnostics td.name { grid-column: 1 / -1; max-width: none; padding-top: 0; color: var(--soft); } }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } figure, tr { break-inside: avoid; }
  figure.wide img { width: 15cm; } figure { break-before: avoid; }
  h2, summary { break-after: avoid; } .pictures { grid-template-columns: 1fr 1fr; }
  details::details-content { display: block; content-visibility: visible; } }
"""
