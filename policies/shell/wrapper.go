package shell

import (
	"path"
	"slices"
	"strings"
)

// wrapper is a program that starts another one, whose words are its operands.
type wrapper struct {
	grammar
	operands int      // number of the wrapper's own words in front of the command
	number   bool     // those words begin with a digit
	assigns  bool     // NAME=value may also be in front of the command
	plain    bool     // it only changes the time, the priority and the streams of the command
	text     wordList // options, by name, whose value is a text for a shell
	none     wordList // options, by name, with which the wrapper starts nothing
	doubt    wordList // options, by name, with which the wrapper starts more than it names, or another program
	shell    bool     // without a command the wrapper starts a shell
}

// wrappers are the programs that only start another program, with the options that each of
// them has: if a word were read as the wrong thing, the command would be hidden. An option
// that is missing here makes the command opaque.
var wrappers = map[string]wrapper{
	"timeout": {grammar: grammar{flags: "fpv", values: "ks", long: "foreground preserve-status verbose help version", valued: "kill-after signal"}, operands: 1, number: true, plain: true, none: "help version"},
	"nice":    {grammar: grammar{flags: "0123456789", values: "n", long: "help version", valued: "adjustment"}, plain: true, none: "help version"},
	"ionice":  {grammar: grammar{flags: "tVh", values: "cnpPu", long: "ignore help version", valued: "class classdata pid pgid uid"}, plain: true, none: "p P u pid pgid uid h help V version"},
	"nohup":   {grammar: grammar{long: "help version"}, plain: true, none: "help version"},
	"setsid":  {grammar: grammar{flags: "cfwhV", long: "ctty fork wait help version"}, plain: true, none: "h V help version"},
	"stdbuf":  {grammar: grammar{values: "ioe", long: "help version", valued: "input output error"}, plain: true, none: "help version"},
	"time":    {grammar: grammar{flags: "apqvV", values: "of", long: "append portability quiet verbose version help", valued: "output format"}, none: "V version help"},
	"chrt":    {grammar: grammar{flags: "abdfiormphvVRe", values: "TPD", long: "all-tasks max pid verbose help version batch deadline ext fifo idle other rr reset-on-fork", valued: "sched-runtime sched-period sched-deadline"}, operands: 1, number: true, plain: true, none: "p pid m max h help V version"},
	"taskset": {grammar: grammar{flags: "apchV", long: "all-tasks pid cpu-list help version"}, operands: 1, number: true, plain: true, none: "p pid h help V version"},
	"numactl": {grammar: grammar{flags: "alsHh", values: "iNmCP", long: "all localalloc show hardware", valued: "interleave cpunodebind membind physcpubind preferred"}, plain: true, none: "s H h show hardware"},

	"sudo":      {grammar: grammar{flags: "ABbEHKklNnPSsievV", attached: "h", values: "CDgpRrtTUu", long: "askpass background bell preserve-env edit set-home remove-timestamp reset-timestamp list login no-update non-interactive preserve-groups stdin shell validate version help", valued: "close-from chdir group host prompt chroot role type command-timeout other-user user"}, assigns: true, none: "e edit K k l list v validate V version help", doubt: "s shell i login h host"},
	"doas":      {grammar: grammar{flags: "Lns", values: "aCu"}, none: "C L", shell: true},
	"pkexec":    {grammar: grammar{long: "disable-internal-agent keep-cwd version help", valued: "user"}, none: "version help", shell: true},
	"gosu":      {operands: 1},
	"su-exec":   {operands: 1},
	"setuidgid": {operands: 1},
	"chroot":    {grammar: grammar{long: "skip-chdir help version", valued: "groups userspec"}, operands: 1, shell: true, none: "help version"},
	"unshare":   {grammar: grammar{flags: "fcrhVmuinpUCT", values: "SGRw", long: "mount uts ipc net pid user cgroup time fork map-root-user map-current-user map-auto keep-caps kill-child mount-proc mount-binfmt forward-signals help version", valued: "propagation setgroups map-user map-users map-group map-groups setuid setgid root wd monotonic boottime load-interp"}, shell: true, none: "h V help version"},
	"nsenter":   {grammar: grammar{flags: "aFZhVec", attached: "muinpUCTrwN", values: "tSGW", long: "all mount uts ipc net pid user cgroup time root wd env no-fork follow-context preserve-credentials keep-caps user-parent join-cgroup help version", valued: "target setuid setgid wdns net-socket"}, shell: true, none: "h V help version"},
	"setpriv":   {grammar: grammar{flags: "dhV", long: "dump nnp no-new-privs clear-groups keep-groups init-groups reset-env list-caps help version", valued: "ambient-caps inh-caps bounding-set ruid euid rgid egid reuid regid groups securebits pdeathsig ptracer selinux-label apparmor-profile landlock-access landlock-rule seccomp-filter"}, none: "d dump h V help version list-caps"},
	"prlimit":   {grammar: grammar{flags: "hV", attached: "cdefilmnqrstuvxy", values: "po", long: "noheadings raw verbose core data nice fsize sigpending memlock rss nofile msgqueue rtprio stack cpu nproc as locks rttime help version", valued: "pid output"}, none: "p pid h V help version"},
	"runcon":    {grammar: grammar{flags: "c", values: "turl", long: "compute help version", valued: "type user role range"}, operands: 1, none: "help version"},
	"fakeroot":  {grammar: grammar{flags: "uhv", values: "lisb", long: "unknown-is-real help version", valued: "lib faked"}, shell: true, doubt: "l lib faked", none: "h v help version"},
	"eatmydata": {},
	"unbuffer":  {grammar: grammar{flags: "p"}},
	"catchsegv": {},
	"tini":      {grammar: grammar{flags: "vsgwhl", values: "pe"}, none: "h l"},
	"dumb-init": {grammar: grammar{flags: "cvhV", values: "r", long: "single-child verbose help version", valued: "rewrite"}, none: "h V help version"},
	"ccache":    {grammar: grammar{flags: "sczCVhp", values: "MFok", long: "show-stats cleanup zero-stats clear version help", valued: "max-size max-files set-config get-config"}, none: "s c z C V h p M F o k show-stats cleanup zero-stats clear version help max-size max-files set-config get-config"},
	"strace":    {grammar: grammar{flags: "cCdfFhiknNqrtTvVwxyYzZ", values: "abeEIoOpPsSuUX", long: "follow-forks output-append-mode summary-only summary help version"}, doubt: "E", none: "h V help version"},
	"ltrace":    {grammar: grammar{flags: "cCfhiLrStTV", values: "aAeFlnopsuwx"}, none: "h V"},

	"flock":   {grammar: grammar{flags: "sxnuoFvhVe", values: "cwE", long: "shared exclusive unlock nonblock nb close no-fork fcntl verbose help version", valued: "command timeout wait conflict-exit-code start length"}, operands: 1, text: "c command", none: "h V help version"},
	"script":  {grammar: grammar{flags: "aefqhVt", values: "cIOBTmoE", long: "append return flush force quiet help version timing", valued: "command log-in log-out log-io log-timing logging-format output-limit echo"}, operands: 1, text: "c command", none: "h V help version", shell: true},
	"su":      {grammar: grammar{flags: "flmpPhV", values: "cgGsTw", long: "fast login preserve-environment pty no-pty help version", valued: "command session-command group supp-group shell whitelist-environment"}, operands: 1, text: "c command session-command", none: "h V help version", shell: true, doubt: "l login s shell"},
	"runuser": {grammar: grammar{flags: "flmpPhV", values: "cgGsuTw", long: "fast login preserve-environment pty no-pty help version", valued: "command session-command group supp-group shell user whitelist-environment"}, text: "c command session-command", none: "h V help version", shell: true, doubt: "l login s shell"},
}

// start reads the operands of a wrapper as the command that it starts.
func (w wrapper) start(r *reader, i int, words []Word, at place) {
	c := &r.out.Commands[i]
	name, via := r.via1(i, words)
	options, rest, why := w.read(words[1:])
	if why != "" {
		c.Opaque = why
		return
	}
	if w.doubt.hasOne(options) {
		c.Opaque = "its options make it start a shell or load a library"
	}
	if w.none.hasOne(options) {
		return
	}
	assigns := c.Assigns
	if text, ok := last(options, w.text.names()...); ok {
		r.shellText(i, text.value, via, at, assigns)
		return
	}
	if w.assigns {
		var why string
		if rest, assigns, why = w.variables(rest, assigns); why != "" {
			c.Opaque = why
			return
		}
	}
	for n := 0; n < w.operands && len(rest) > 0; n++ {
		if rest[0].Certainty == Any {
			c.Opaque = whyDynamic
			return
		}
		if w.number && !strings.ContainsAny(rest[0].Text[:min(1, len(rest[0].Text))], "0123456789.") {
			// Some versions do not need this word: it may already be the command.
			c.Opaque = whyUnknown
			return
		}
		rest = rest[1:]
	}
	if name == "flock" && len(rest) > 1 && (rest[0].Text == "-c" || rest[0].Text == "--command") {
		r.shellText(i, rest[1], via, at, assigns)
		return
	}
	asUser := name == "runuser" && has(options, "u", "user")
	if name == "su" || name == "script" || name == "runuser" && !asUser || len(rest) == 0 {
		// The other operands of su are the arguments of the shell.
		if w.shell {
			c.Opaque = "it starts a shell"
		}
		return
	}
	c.Wrapper = w.plain && installed(words[0].Text)
	r.started(rest, assigns, via, at)
}

// variables reads NAME=value in front of the command. Options may follow these words too,
// for example in "sudo A=1 -u bob id".
func (w wrapper) variables(rest []Word, assigns []Assign) ([]Word, []Assign, string) {
	for len(rest) > 0 {
		one, why, ok := assignment(rest[0])
		switch {
		case !ok:
			return rest, assigns, ""
		case why != "":
			return rest, assigns, why
		}
		assigns = append(slices.Clip(assigns), one)
		options, more, why := w.read(rest[1:])
		if why == "" && (w.doubt.hasOne(options) || w.none.hasOne(options)) {
			why = "its options make it start a shell or load a library"
		}
		if why != "" {
			return rest, assigns, why
		}
		rest = more
	}
	return rest, assigns, ""
}

// via1 returns the name of the program of a command, and the Via of the commands
// that it starts.
func (r *reader) via1(i int, words []Word) (string, []string) {
	name := path.Base(words[0].Text)
	via := r.out.Commands[i].Via
	return name, append(slices.Clip(via), name)
}

// started adds a command that another command starts.
func (r *reader) started(words []Word, assigns []Assign, via []string, at place) {
	text := make([]string, len(words))
	for i, w := range words {
		text[i] = w.Text
		if w.Certainty > Home {
			text[i] += "..."
		}
	}
	r.command(words, assigns, nil, via, strings.Join(text, " "), at)
}

// shellText reads the text that command i passes to a shell.
func (r *reader) shellText(i int, text Word, via []string, at place, assigns []Assign) {
	if text.Certainty != Exact {
		r.out.Commands[i].Opaque = "the text that it has a shell run is only known when it runs"
		return
	}
	why := r.nested(text.Text, via, at, assigns, false)
	if why == "" {
		why = dialect(text.Text)
	}
	if c := &r.out.Commands[i]; c.Opaque == "" {
		c.Opaque = why
	}
}
