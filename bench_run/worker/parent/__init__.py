"""The run's end of the process boundary: workers are started, asked, waited for and replaced."""
