package launch

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"belljar.dev/mcp/upstream/config"
)

// The hints for options of docker run (docker run --help) that are refused. An option that
// is not in the table is refused too, so that later options of docker are.
const (
	limitsHint  = "remove it, and set the limits of this server in the policy"
	networkHint = "remove it, and name the hosts in the policy: the only network of a box is its door"
	secureHint  = "remove it: a server cannot weaken the isolation of its box"
	noEffect    = "remove it: it has no effect in a box"
)

// dockerOption is an option of docker run.
type dockerOption struct {
	takes bool
	hint  string // hint for an option that is refused
	read  func(*Plan, *container, string, config.Text) error
}

// container contains the options of a docker run that describe the container.
type container struct {
	stdin      bool
	env        []config.Variable
	entrypoint *config.Text
}

// harmless reads an option that only sets what a box does anyway.
func harmless(*Plan, *container, string, config.Text) error { return nil }

// dockerOptions returns the table of docker's options.
func dockerOptions() map[string]dockerOption {
	table := map[string]dockerOption{
		"--interactive": {read: func(_ *Plan, c *container, _ string, v config.Text) error {
			c.stdin = value(v) != "false"
			return nil
		}},
		"--env":        {takes: true, read: (*Plan).dockerEnv},
		"--volume":     {takes: true, read: (*Plan).dockerVolume},
		"--mount":      {takes: true, read: (*Plan).dockerMount},
		"--workdir":    {takes: true, read: func(p *Plan, _ *container, _ string, v config.Text) error { p.Cwd = v; return nil }},
		"--entrypoint": {takes: true, read: func(_ *Plan, c *container, _ string, v config.Text) error { c.entrypoint = &v; return nil }},
		"--network":    {takes: true, read: (*Plan).dockerNetwork},
		"--security-opt": {takes: true, read: func(_ *Plan, _ *container, flag string, v config.Text) error {
			if s := value(v); s != "no-new-privileges" && s != "no-new-privileges:true" && s != "no-new-privileges=true" {
				return refuse(flag, secureHint, "docker's option %s %s is refused", flag, v)
			}
			return nil
		}},
	}
	add := func(o dockerOption, names string) {
		for name := range strings.FieldsSeq(names) {
			table[name] = o
		}
	}
	add(dockerOption{read: harmless}, "--rm --init --quiet --read-only --no-healthcheck")
	add(dockerOption{takes: true, read: harmless}, "--name --label --label-file --pull --cap-drop --hostname --log-driver --log-opt --stop-signal --stop-timeout --attach --sig-proxy")

	add(dockerOption{hint: "remove it: a terminal would change what the server writes"}, "--tty")
	add(dockerOption{hint: "remove it: belljar needs the server's standard input and output"}, "--detach")
	add(dockerOption{hint: secureHint}, "--privileged --oom-kill-disable --use-api-socket")
	add(dockerOption{hint: networkHint}, "--publish-all")
	add(dockerOption{takes: true, hint: secureHint}, "--cap-add --device --device-cgroup-rule --device-read-bps --device-write-bps --gpus --ipc --pid --uts --userns --cgroupns --cgroup-parent --group-add --runtime --sysctl --volumes-from --volume-driver --isolation --storage-opt")
	add(dockerOption{takes: true, hint: networkHint}, "--publish --expose --add-host --dns --dns-option --dns-search --link --network-alias --ip --ip6 --mac-address --domainname")
	add(dockerOption{takes: true, hint: limitsHint}, "--memory --memory-swap --memory-reservation --memory-swappiness --kernel-memory --cpus --cpu-shares --cpu-quota --cpu-period --cpuset-cpus --cpuset-mems --pids-limit --ulimit --shm-size --blkio-weight --oom-score-adj")
	add(dockerOption{takes: true, hint: "write it as envFile of the entry"}, "--env-file")
	add(dockerOption{takes: true, hint: "remove it: a box has a user of its own"}, "--user")
	add(dockerOption{takes: true, hint: "remove it: the box has /tmp"}, "--tmpfs")
	add(dockerOption{takes: true, hint: "import the image of that platform under a separate name"}, "--platform")
	add(dockerOption{takes: true, hint: "remove it: belljar restarts servers itself"}, "--restart")
	add(dockerOption{takes: true, hint: noEffect}, "--cidfile --annotation --detach-keys --health-cmd --health-interval --health-retries --health-timeout --health-start-period --health-start-interval")
	return table
}

// short maps docker's options of one letter to their long names.
var short = map[byte]string{
	'a': "--attach", 'c': "--cpu-shares", 'd': "--detach", 'e': "--env", 'h': "--hostname", 'i': "--interactive", 'l': "--label", 'm': "--memory",
	'p': "--publish", 'P': "--publish-all", 'q': "--quiet", 't': "--tty", 'u': "--user", 'v': "--volume", 'w': "--workdir",
}

// longer maps other names of options to the names in the table.
var longer = map[string]string{"--net": "--network", "--dns-opt": "--dns-option", "--net-alias": "--network-alias"}

// imageName matches names of images: lower case, with a registry, tag and digest.
var imageName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(?::[0-9]+)?(?:/[a-z0-9][a-z0-9._-]*)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$`)
})

// docker plans a docker run as a box with the image: no client and no socket of docker is
// used.
func (p *Plan) docker(args []config.Text, d Dirs) error {
	args, err := p.dockerRun(args)
	if err != nil {
		return err
	}
	var c container
	rest, err := p.dockerRead(&c, args)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return refuse("", "write the image after the options", "docker run does not name an image")
	}
	image := value(rest[0])
	if !imageName().MatchString(image) || len(image) > 512 {
		return refuse("", "", "%s is not a valid name of an image", rest[0])
	}
	if !c.stdin {
		return refuse("-i", "write docker run -i", "docker run without -i gives the server no standard input")
	}
	p.Image, rest = image, rest[1:]
	if c.entrypoint != nil && !c.entrypoint.Empty() {
		rest = slices.Concat([]config.Text{*c.entrypoint}, rest)
	}
	p.Run = phase(rest...)
	p.Run.Entrypoint = c.entrypoint == nil || c.entrypoint.Empty()
	p.Run.Env = p.environment(d, c.env, offline, nil)
	if !p.EnvFile.Empty() { // envFile would set docker's own environment, and not the container's
		p.note("write the variables into env of the entry", "envFile has no effect on docker run")
		p.EnvFile = config.Text{}
	}
	return nil
}

// dockerRun returns the arguments after "run".
func (p *Plan) dockerRun(args []config.Text) ([]config.Text, error) {
	for i, t := range args {
		switch word := value(t); {
		case strings.HasPrefix(word, "-"):
			name, _, _ := strings.Cut(t.String(), "=")
			return nil, refuse(name, "remove it: belljar does not use docker", "docker's option %s is refused", name)
		case word == "container" && i == 0:
		case word == "run":
			return args[i+1:], nil
		default:
			return nil, refuse("", "write docker run -i IMAGE, or start the program without docker", "docker %s is refused: belljar does not use docker", t)
		}
	}
	return nil, refuse("", "write docker run -i IMAGE", "the entry uses docker without run")
}

// dockerRead reads the options before the image. It returns the image and the arguments
// after it.
func (p *Plan) dockerRead(c *container, args []config.Text) ([]config.Text, error) {
	table := dockerOptions()
	for i := 0; i < len(args); i++ {
		word := value(args[i])
		if word == "--" {
			return args[i+1:], nil
		}
		if len(word) < 2 || word[0] != '-' {
			return args[i:], nil
		}
		asked, err := p.dockerFlags(table, args[i])
		if err != nil {
			return nil, err
		}
		for _, f := range asked {
			if f.wants {
				if i++; i == len(args) {
					return nil, refuse(f.written, "", "docker's option %s needs a value", f.written)
				}
				f.value = args[i]
			}
			if f.option.read == nil {
				return nil, refuse(f.written, f.option.hint, "docker's option %s is refused", f.written)
			}
			if err := f.option.read(p, c, f.written, f.value); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// asked is one option as the entry writes it.
type asked struct {
	option  dockerOption
	written string // name as in the entry
	value   config.Text
	wants   bool // the value is the next argument
}

// dockerFlags reads one argument: a long option, or several letters, and the last letter may
// have a value (-it, -eNAME=VALUE).
func (p *Plan) dockerFlags(table map[string]dockerOption, t config.Text) ([]asked, error) {
	word := value(t)
	unknown := func(name string) error {
		if len(t.Variables()) > 0 {
			name = t.String()
		}
		return refuse(name, "remove it", "belljar does not know docker's option %s", name)
	}
	if strings.HasPrefix(word, "--") {
		name, inline, joined := t.Cut("=")
		if !joined {
			name = word
		}
		canonical := name
		if other, ok := longer[name]; ok {
			canonical = other
		}
		o, ok := table[canonical]
		if !ok {
			return nil, unknown(name)
		}
		return []asked{{option: o, written: name, value: inline, wants: o.takes && !joined}}, nil
	}
	var all []asked
	for at := 1; at < len(word); at++ {
		written := "-" + word[at:at+1]
		o, ok := table[short[word[at]]]
		if !ok {
			return nil, unknown(written)
		}
		f := asked{option: o, written: written}
		if o.takes {
			f.value, _ = t.Without(word[:at+1])
			if v, cut := f.value.Without("="); cut {
				f.value = v
			}
			f.wants = at+1 == len(word)
			return append(all, f), nil
		}
		all = append(all, f)
	}
	return all, nil
}

// dockerEnv reads NAME=VALUE, or NAME. The value of a NAME alone comes from docker's own
// environment, which is that of the entry.
func (p *Plan) dockerEnv(c *container, flag string, v config.Text) error {
	name, given, joined := v.Cut("=")
	if !joined {
		name = value(v)
		at := slices.IndexFunc(p.env, func(have config.Variable) bool { return have.Name == name })
		if at < 0 {
			p.note("add it to env of the entry, or remove the option", "docker's option %s names the variable %s, which the entry does not set", flag, v)
			return nil
		}
		given = p.env[at].Value
	}
	if name == "" || config.Reserved(name) {
		return refuse(flag, "use another name", "docker's option %s sets a variable without a name, or one of belljar's own", flag)
	}
	c.env = slices.DeleteFunc(c.env, func(have config.Variable) bool { return have.Name == name })
	c.env = append(c.env, config.Variable{Name: name, Value: given})
	return nil
}

// dockerNetwork accepts the networks that a box has anyway: none, or its own network behind
// the door.
func (p *Plan) dockerNetwork(_ *container, flag string, v config.Text) error {
	switch value(v) {
	case "none", "bridge", "default":
		return nil
	}
	return refuse(flag, networkHint, "docker's option %s %s is refused", flag, v)
}

// dockerVolume reads SOURCE:TARGET[:OPTIONS].
func (p *Plan) dockerVolume(_ *container, flag string, v config.Text) error {
	parts := strings.Split(value(v), ":")
	if len(parts) < 2 || len(parts) > 3 {
		return refuse(flag, "write -v /HOST/PATH:/BOX/PATH:ro", "docker's option %s does not name a path of the host and one of the box", flag)
	}
	m := Mount{Source: parts[0], Target: parts[1]}
	if len(parts) == 3 {
		for o := range strings.SplitSeq(parts[2], ",") {
			switch o {
			case "ro", "readonly":
				m.ReadOnly = true
			case "rw", "z", "Z", "rprivate", "private", "consistent", "cached", "delegated":
			default:
				return refuse(flag, "write ro, or nothing", "docker's option %s %s has a mount option that is refused", flag, v)
			}
		}
	}
	return p.mount(flag, v, m)
}

// dockerMount reads type=bind,source=...,target=...[,readonly].
func (p *Plan) dockerMount(_ *container, flag string, v config.Text) error {
	var m Mount
	kind := "volume"
	for part := range strings.SplitSeq(value(v), ",") {
		key, val, _ := strings.Cut(part, "=")
		switch key {
		case "type":
			kind = val
		case "source", "src":
			m.Source = val
		case "target", "destination", "dst":
			m.Target = val
		case "readonly", "ro":
			m.ReadOnly = val != "false" && val != "0"
		case "bind-propagation", "consistency":
		default:
			return refuse(flag, "write type=bind,source=/HOST/PATH,target=/BOX/PATH,readonly", "docker's option %s %s has a key that is refused", flag, v)
		}
	}
	if kind != "bind" {
		return refuse(flag, "write type=bind,source=/HOST/PATH,target=/BOX/PATH", "docker's option %s %s does not have the type bind, and only paths can be mounted", flag, v)
	}
	return p.mount(flag, v, m)
}

// mount adds a mount. It refuses places that would open the host; the grant decides about
// the others.
func (p *Plan) mount(flag string, v config.Text, m Mount) error {
	if !strings.HasPrefix(m.Source, "/") {
		return refuse(flag, "write the whole path of a directory", "docker's option %s %s names a volume, which only docker has", flag, v)
	}
	m.Source, m.Target = path.Clean(m.Source), path.Clean(m.Target)
	if !strings.HasPrefix(m.Target, "/") || m.Target == "/" {
		return refuse(flag, "write the whole path of a directory in the box", "docker's option %s %s covers the whole box, or names no path in it", flag, v)
	}
	if slices.ContainsFunc([]string{"docker.sock", "podman.sock", "containerd.sock", "crio.sock"}, func(s string) bool { return path.Base(m.Source) == s }) {
		return refuse(flag, "remove it: no server gets the socket of docker", "docker's option %s %s would let the server control the host", flag, v)
	}
	if slices.Contains(closedPlaces, m.Source) || slices.ContainsFunc(closedTrees, func(dir string) bool { return m.Source == dir || strings.HasPrefix(m.Source, dir+"/") }) {
		return refuse(flag, "name the one directory that the server needs", "docker's option %s %s mounts a path of the host that no server gets", flag, v)
	}
	p.Mounts = append(p.Mounts, m)
	return nil
}

// Places of the host that no entry opens, whatever the grant allows. closedPlaces are
// refused only as such, because they contain everything; closedTrees are refused with
// everything below them.
var (
	closedPlaces = []string{"/", "/home", "/usr", "/var", "/var/lib"}
	closedTrees  = []string{"/boot", "/dev", "/etc", "/proc", "/root", "/run", "/sys", "/var/lib/containerd", "/var/lib/docker", "/var/run"}
)
