"""The report of an ablation: which configuration to ship and why, its tables and pictures, and what stays open."""

from retrieval_lab.report.writing import Report, write_report

__all__ = ["Report", "write_report"]
