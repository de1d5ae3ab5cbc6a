"""The HTML report: a model of plain values, pictures in SVG, and what renders them into one file.

Fill a `reports.model.Report`, give it to `reports.render.write(report, directory)`: it makes index.html,
which needs nothing beside it, and report.json, from which the page can be made again. `reports.junit`
tells a CI server the same. The room knows nothing of engine or harness. What it writes goes to reports/out,
outside git.
"""
