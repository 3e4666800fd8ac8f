package sandbox

import (
	"maps"
	"slices"
	"strings"

	"belljar.dev/policies"
	"belljar.dev/sandbox/images"
)

// SearchPath is the PATH of a box whose image and grant have none of their own.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// boxEnv returns the environment of a box's commands. It is built, never inherited. The
// variables of the profile replace those of the image.
func boxEnv(grant policies.Grant, image *images.Tree, intercepted bool) []string {
	env := map[string]string{
		"PATH": SearchPath,
		"HOME": boxHome, "USER": boxUser, "LOGNAME": boxUser, "SHELL": shellOf(image),
		"LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp", "XDG_RUNTIME_DIR": boxRun,
		// The door refuses a request again if it is repeated, and npm repeats it
		// after every error: by default after 10 and 60 seconds.
		"npm_config_fetch_retry_mintimeout": "1000", "npm_config_fetch_retry_maxtimeout": "2000",
	}
	maps.Copy(env, imageEnv(image))
	if intercepted {
		maps.Copy(env, trustEnv)
	}
	maps.Copy(env, grant.Env())
	return environ(env)
}

// environ returns variables in the form in which a program gets them, NAME=value.
func environ(vars map[string]string) []string {
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// imageEnv returns the variables of an image that boxes take over. It leaves out
// those that name directories of the box, and those from which a shell runs code
// before a script.
func imageEnv(tree *images.Tree) map[string]string {
	env := map[string]string{}
	if tree == nil {
		return env
	}
	for _, e := range tree.Runtime.Env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "XDG_RUNTIME_DIR", "BASH_ENV", "ENV", "PWD", "OLDPWD":
		default:
			env[name] = value
		}
	}
	return env
}
