"""The page of a report; values are escaped, only the figures come as markup."""

#: Up to the body: style and plotly, the same for all reports.
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { --ink: #1b1b1b; --soft: #666; --line: #e2e2e2; --good: #2e7d32; --bad: #c62828; }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: #fafafa; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 34px 0 8px; }
header { display: flex; gap: 14px; align-items: center; flex-wrap: wrap; }
.badge { color: #fff; border-radius: 4px; padding: 2px 12px; font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); }
.badge.good { background: var(--good); color: #fff; }
.badge.bad { background: var(--bad); color: #fff; }
.facts { display: flex; flex-wrap: wrap; gap: 6px 28px; margin: 10px 0 4px; color: var(--soft); }
.facts b { color: var(--ink); font-weight: 600; }
.tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 20px; }
section, .card { background: #fff; border: 1px solid var(--line); border-radius: 8px;
  padding: 14px 18px; margin-top: 16px; overflow-x: auto; }
section h2, .card h2 { margin: 0 0 6px; }
.note { color: var(--soft); margin: 0 0 4px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; }
footer { color: var(--soft); font-size: 13px; margin-top: 28px; word-break: break-word; }
</style>
<script>{{ plotly_js }}</script>
</head>
"""

TEMPLATE = (
    HEAD
    + """<body><main>
<header><h1>{{ title }}</h1>
<span class="badge {{ 'good' if summary.passed else 'bad' }}">
{{- 'passed' if summary.passed else 'failed' }}</span></header>
<div class="facts">
{% for name, value in facts %}<span>{{ name }} <b>{{ value }}</b></span>{% endfor %}
</div>
{% for note in summary.notes %}<p class="note">Note: {{ note }}</p>{% endfor %}
{% for error in summary.errors %}<p class="bad">{{ error }}</p>{% endfor %}
<div class="tables">
{% if summary.criteria %}
<div class="card"><h2>Criteria</h2><table>
<tr><th>value</th><th class="n">reached</th><th class="n">limit</th><th></th></tr>
{% for item in summary.criteria %}
<tr><td>{{ item.name }}{% if item.get('hold_s') %} for {{ item.hold_s | figure }} s{% endif %}</td>
<td class="n">{{ item.value | figure }}</td>
<td class="n">{% if item.get('least') %}{{ item.least | figure }} … {% endif -%}
{{ item.limit | figure }}</td>
<td class="{{ 'good' if item.passed else 'bad' }}">{{ 'passed' if item.passed else 'failed' }}</td>
</tr>{% endfor %}
</table></div>
{% endif %}
{% if estimators %}
<div class="card"><h2>Estimates against the truth</h2>
<p class="note">From {{ summary.settle_s | figure }} s after the start.</p><table>
<tr><th></th>{% for name in estimators %}<th class="n">{{ name }}</th>{% endfor %}</tr>
{% for row in rows %}
<tr><td>{{ row.name }}</td>{% for value in row.figures %}<td class="n">{{ value | figure }}</td>
{% endfor %}</tr>{% endfor %}
</table></div>
{% endif %}
</div>
{% for part in parts %}
<section><h2>{{ part.title }}</h2>{% if part.note %}<p class="note">{{ part.note }}</p>{% endif %}
{{ part.html }}</section>
{% endfor %}
<div class="tables">
{% if events %}
<div class="card"><h2>Events</h2><table>
<tr><th class="n">time, s</th><th>what</th><th></th></tr>
{% for event in events %}
<tr><td class="n">{{ '%.2f' | format(event.time_s) }}</td><td>{{ event.name }}</td>
<td class="{{ 'bad' if event.level else '' }}">{{ event.message }}</td></tr>{% endfor %}
</table></div>
{% endif %}
{% if summary.topics %}
<div class="card"><h2>Topics</h2><table>
<tr><th>topic</th><th class="n">messages</th><th class="n">rate, Hz</th></tr>
{% for name, item in summary.topics.items() %}
<tr><td>{{ name }}</td><td class="n">{{ item.count }}</td>
<td class="n">{{ item.rate_hz | figure }}</td></tr>{% endfor %}
</table></div>
{% endif %}
</div>
<footer>
{% for name, value in summary.versions.items() %}{{ name }} {{ value }}{{ ', ' if not loop.last }}
{%- endfor %}. {{ summary.machine.processor }}, {{ summary.machine.cores }} cores,
{{ summary.machine.system }}.<br>digest {{ summary.digest }}
</footer>
</main></body></html>
"""
)
