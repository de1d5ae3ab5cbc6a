"""Any program on trial, judged by what appears at its output."""
