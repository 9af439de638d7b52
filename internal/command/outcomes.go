package command

// An Outcome is how a command can end.
type Outcome struct {
	Name string // by which the tests find it
	Code int    // that the command exits with
	When string // in Markdown
}

// Outcomes is the table of the exit codes of all commands. Caddy exits with 1 for each error.
var Outcomes = []Outcome{
	{"done", 0, "It did what it was asked to do, or printed its help."},
	{"told", 0, "`doctor` found nothing but warnings, `import --dry-run` found differences, or `salvage` lost rows that cannot be read."},
	{"usage", 1, "There is no such command or flag, an argument or a required flag is missing, or a value is malformed."},
	{"unreachable", 1, "No server answers at `--address`, or none does and there is no store to open."},
	{"not found", 1, "What it names does not exist."},
	{"refused", 1, "The control plane refuses it, a file is not what it should be, or something is where a file would be written."},
	{"found", 1, "`audit verify` or `verify` found damage, or `doctor` an error."},
}
