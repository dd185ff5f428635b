# Completions of bench-compare for fish; made by `python -m tests.completions`.
complete -c bench-compare -n '__fish_is_first_arg' -a 'history compose export pages help'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l a -r -d 'documents of the base, in place of DOC'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l b -r -d 'documents of the other side'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l group-by -r -d 'label, tag'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l base -r -d 'the side that the others are compared with'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l label -r -d 'names of the sides for the reports, once for each in order'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l metric -r -d 'only this metric'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l threshold -r -d 'smallest change of interest'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l policy -r -d 'TOML with thresholds per metric and graph, fail-on, allow'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l fail-on -r -d 'verdicts, metrics, suite, by commas, beside slower, newly-unsupported and suite'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l require-sensitivity -r -d 'exit 1 unless nine of ten cases could have shown a slow-down of S'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l max-unclear -r -d 'exit 1 where more cases are unclear'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l allow -r -d 'a regression that is expected'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l allow-no-answer -d 'exit 0 where there is no answer'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l strict -d 'exit 1 where settings that must agree differ, whatever is allowed, or a name means two graphs'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l aa -d 'all DOC are one build'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l save-calibration -r -d 'with --aa'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l calibration -r -d 'use it where each side is a single document'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l archive -r -d 'learn it from earlier documents of this machine instead'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l all -d 'also unchanged and unclear cases'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l sort -r -d 'news, ratio, difference, name, family, time or document'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l filter -r -d 'only cases whose name, family, engine or verdict has each word of TEXT, or fits it as a glob'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l color -r -d 'auto, always or never'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l markdown -r -d 'for a pull request'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l csv -r -d 'one row a case and metric'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l json -r -d 'everything, also for bench-run --rerun-from'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l junit -r -d 'each case a test'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l html -r -d 'one page with charts that opens offline'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l plotlyjs -r -d 'plotly.js of the page'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -s q -l quiet -d 'only the last line'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -s h -l help -d 'this text'
complete -c bench-compare -n 'not __fish_seen_subcommand_from history compose export pages help' -l version -d 'the version'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l by -r -d 'what is a build'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l repo -r -d 'git repository that orders the builds, in place of their starts'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l metric -r -d 'device_ns, e2e_ns, init_ns …'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l filter -r -d 'only cases whose name, family or engine has each word of TEXT, or fits it as a glob'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l since -r -d 'tell and gate only events of a build or day and later'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l threshold -r -d 'smallest step of interest'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l events -r -d 'TOML'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l fail-on -r -d 'new-regression, unclear or none, by commas'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l allow-no-answer -d 'exit 0 where there is no answer'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l markdown -r -d 'for an issue'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l json -r -d 'everything, also for bench-run --rerun-from'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l junit -r -d 'each series a test'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l html -r -d 'one page with charts that opens offline'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l next -r -d 'command lines that would decide most'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -s q -l quiet -d 'only the last line'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -s h -l help -d 'this text'
complete -c bench-compare -n '__fish_seen_subcommand_from history' -l version -d 'the version'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l baseline -r -d 'what the answer is held against'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l choose -r -d 'the best rows by time or energy'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l limit -r -d 'error=1e-3'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l fix -r -d 'LAYER=CONFIGURATION, both may be globs'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l engine -r -d 'only rows of this engine'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l cache -r -d 'only rows of this cache state predict'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l metric -r -d 'device_ns or e2e_ns'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l against -r -d 'documents of bench-run PIPELINE --chain'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l markdown -r -d 'for a pull request'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l csv -r -d 'one row a layer and way to run it'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l json -r -d 'everything'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l html -r -d 'one page that opens offline'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l tensors -r -d 'HPVMs table'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l save -r -d 'the chosen plans as a pipeline for bench-run --chain'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l configurations -r -d 'a file of blocks +++++, NAME SPEED-UP ENERGY ..., a line a layer'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l space -r -d 'the table of knobs that its ids stand for'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -s o -l output -r -d 'a copy of the file with real speed-ups and reductions of energy'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -s q -l quiet -d 'only the last line'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -s h -l help -d 'this text'
complete -c bench-compare -n '__fish_seen_subcommand_from compose' -l version -d 'the version'
complete -c bench-compare -n '__fish_seen_subcommand_from export' -l to -r -d 'format, and the file to write'
complete -c bench-compare -n '__fish_seen_subcommand_from export' -s h -l help -d 'this text'
complete -c bench-compare -n '__fish_seen_subcommand_from export' -l version -d 'the version'
complete -c bench-compare -n '__fish_seen_subcommand_from pages' -s o -l output -r -d 'folder of the site'
complete -c bench-compare -n '__fish_seen_subcommand_from pages' -l by -r -d 'what is a build'
complete -c bench-compare -n '__fish_seen_subcommand_from pages' -l repo -r -d 'git repository that orders the builds'
complete -c bench-compare -n '__fish_seen_subcommand_from pages' -l threshold -r -d 'smallest change of interest'
complete -c bench-compare -n '__fish_seen_subcommand_from pages' -l events -r -d 'TOML'
complete -c bench-compare -n '__fish_seen_subcommand_from pages' -l force -d 'write all pages anew'
complete -c bench-compare -n '__fish_seen_subcommand_from pages' -s h -l help -d 'this text'
complete -c bench-compare -n '__fish_seen_subcommand_from pages' -l version -d 'the version'
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a comparing
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a ci
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a noise
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a history
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a composition
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a document
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a tools
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a documents
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a verdicts
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a show
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a output
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a answers
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a compare
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a compose
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a export
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a pages
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a help
complete -c bench-compare -n '__fish_seen_subcommand_from help' -f -a all
