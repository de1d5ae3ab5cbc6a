"""The HTML report: a model of plain values, charts in SVG, and their rendering into one file.

`reports.render.write(report, directory)` writes a `reports.model.Report` as index.html, which is
self-contained, and as report.json, from which the page can be rendered again. `reports.junit` writes the same
report as JUnit XML. This package imports neither engine nor harness. Results go to reports/out, which git
ignores.
"""
