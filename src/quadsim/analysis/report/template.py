"""The page of a report; values are escaped, only the figures come as markup."""

_OPENING = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { --ink: #1b1b1b; --soft: #595959; --line: #e2e2e2; --good: #1b6e20; --bad: #b71c1c;
  --warn: #7a4a00; }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: #fafafa; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 34px 0 8px; }
header { display: flex; gap: 14px; align-items: center; flex-wrap: wrap; }
.badge { color: #fff; border-radius: 4px; padding: 2px 12px; font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.badge.good { background: var(--good); color: #fff; }
.badge.bad { background: var(--bad); color: #fff; }
.facts { display: flex; flex-wrap: wrap; gap: 6px 28px; margin: 10px 0 4px; color: var(--soft); }
.facts b { color: var(--ink); font-weight: 600; overflow-wrap: anywhere; }
section, .card { background: #fff; border: 1px solid var(--line); border-radius: 8px;
  padding: 14px 18px; margin-top: 16px; overflow-x: auto; }
section h2, .card h2 { margin: 0 0 6px; }
.note { color: var(--soft); margin: 0 0 4px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 600; vertical-align: bottom; }
th, td { padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; } td.n, td.v { white-space: nowrap; }
td.v { width: 1%; }
footer { color: var(--soft); font-size: 13px; margin-top: 28px; overflow-wrap: anywhere; }
.why { font-size: 17px; margin: 8px 0 0; }
nav { display: flex; flex-wrap: wrap; gap: 2px 16px; margin-top: 14px; }
nav a, footer a { color: #005a91; }
.swatch { display: inline-block; width: 12px; height: 12px; border-radius: 2px;
  margin-right: 7px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 4px; margin: 2px 0 0; }
.legend button { font: inherit; font-size: 13px; color: var(--ink); background: none; border: 0;
  border-radius: 4px; padding: 1px 7px; cursor: pointer; overflow-wrap: anywhere;
  text-align: left; }
.legend button:hover { background: #eee; }
.legend button svg { vertical-align: middle; }
.legend button[aria-pressed=false] { color: #6b6b6b; text-decoration: line-through; }
.legend button[aria-pressed=false] svg { opacity: 0.3; }
details summary { cursor: pointer; font-weight: 600; }
@media (max-width: 600px) {
  main { padding: 14px 8px 40px; } section, .card { padding: 10px 8px; }
  h1 { font-size: 21px; } body { font-size: 14px; }
}
@media print {
  @page { size: A4; margin: 12mm; }
  body { background: #fff; zoom: 0.6; } main { max-width: none; padding: 0; }
  nav, .modebar, .legend button[aria-pressed=false] { display: none !important; }
  section, .card { break-inside: avoid; border-color: #ccc; }
}
</style>
"""

#: Up to the body: style and plotly, the same for all reports.
HEAD = _OPENING + "<script>{{ plotly_js }}</script>\n</head>\n"

TEMPLATE = (
    _OPENING
    + """</head>
{% macro show(table) %}
<table><thead><tr>
{% for head in table.columns %}<th scope="col" class="{{ head.style }}">{{ head.text }}</th>
{% endfor %}
</tr></thead><tbody>
{% for row in table.rows %}<tr>
{% for cell in row %}<td{% if cell.style %} class="{{ cell.style }}"{% endif %}>
{%- if cell.colour %}<span class="swatch" style="background: {{ cell.colour }}"></span>{% endif %}
{{- cell.text }}</td>{% endfor %}
</tr>{% endfor %}
</tbody></table>
{% endmacro %}
{% macro card(table) %}
{% if table.rows %}<div class="card" id="{{ table.key }}"><h2>{{ table.title }}</h2>
{% if table.note %}<p class="note">{{ table.note }}</p>{% endif %}
{{ show(table) }}</div>{% endif %}
{% endmacro %}
<body><main>
<header><h1>{{ title }}</h1>
<span class="badge {{ 'good' if passed else 'bad' }}">
{{- 'passed' if passed else 'failed' }}</span></header>
<p class="why">{{ why }}</p>
<div class="facts">
{% for name, value in facts %}<span>{{ name }} <b>{{ value }}</b></span>{% endfor %}
</div>
{% for words in errors %}<p class="bad">{{ words }}</p>{% endfor %}
{% for words in notes %}<p class="note">Note: {{ words }}</p>{% endfor %}
{% for table in first %}{{ card(table) }}{% endfor %}
<nav aria-label="Figures">
{% for part in parts %}<a href="#{{ part.key }}">{{ part.title }}</a>{% endfor %}
{% for table in last if table.rows %}<a href="#{{ table.key }}">{{ table.title }}</a>{% endfor %}
</nav>
<noscript><p class="bad">The plots need JavaScript; the tables do not.</p></noscript>
<p class="note">Drag in a plot to zoom: the time axes move together; a double click shows all.
A click on a name hides or shows it in every plot, a double click shows it alone.
{% if events %}Dotted lines are <a href="#events">events</a>, numbered as in their table.{% endif %}
A line has at most {{ points }} points; of what lies between, the smallest and the largest value are
drawn, so that no peak is lost.</p>
{% for part in parts %}
<section id="{{ part.key }}"><h2>{{ part.title }}</h2>
{% if part.note %}<p class="note">{{ part.note }}</p>{% endif %}
<div class="plot" id="plot-{{ part.key }}" style="height: {{ part.height }}px"></div></section>
{% endfor %}
{% for table in last %}{{ card(table) }}{% endfor %}
<footer>
{% for name, value in versions.items() %}{{ name }} {{ value }}{{ ', ' if not loop.last }}
{%- endfor %}. {{ machine.processor }}, {{ machine.cores }} cores, {{ machine.system }}.
{% for run, digest in digests %}<br>digest{% if run %} of {{ run }}{% endif %} {{ digest }}
{% endfor %}
</footer>
</main>
<script>{{ plotly_js }}</script>
<script type="application/json" id="figures">{{ figures }}</script>
<script>{{ script }}</script>
</body></html>
"""
)
