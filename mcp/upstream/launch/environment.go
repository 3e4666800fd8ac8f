package launch

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"belljar.dev/mcp/upstream/config"
)

// network is what the variables tell package managers about the network.
type network bool

const (
	online  network = true
	offline network = false
)

// ours returns the environment variables that belljar sets. All of them are set for every
// command, so they reach the last child even if a script starts the launcher.
//
// Launchers also write outside their caches: npm its logs, uv its tools (and locks them in
// a plain run as well), pipx its environments, pnpm its store. A directory that is left at
// its default is in the home directory, which is empty at each start or not writable.
func ours(d Dirs, n network, more []string) (all []config.Variable) {
	pairs := []string{
		"HOME", d.Home,
		"TMPDIR", d.Temp,
		"XDG_CACHE_HOME", d.Home + "/.cache",
		"XDG_CONFIG_HOME", d.Home + "/.config",
		"XDG_DATA_HOME", d.Home + "/.local/share",
		"XDG_STATE_HOME", d.Home + "/.local/state",

		"npm_config_cache", d.Cache + "/npm",
		"npm_config_logs_dir", d.Temp + "/npm-logs",
		"npm_config_prefer_offline", "true",
		"npm_config_update_notifier", "false",
		"npm_config_audit", "false",
		"npm_config_fund", "false",
		"npm_config_yes", "true",

		"BUN_INSTALL", d.Cache + "/bun",
		"BUN_INSTALL_CACHE_DIR", d.Cache + "/bun/cache",
		"PNPM_HOME", d.Cache + "/pnpm",

		"UV_CACHE_DIR", d.Cache + "/uv",
		"UV_TOOL_DIR", d.Cache + "/uv-tools",
		"UV_TOOL_BIN_DIR", d.Cache + "/uv-bin",
		"UV_PYTHON_INSTALL_DIR", d.Cache + "/uv-python",
		"UV_NO_PROGRESS", "1",

		"PIP_CACHE_DIR", d.Cache + "/pip",
		"PIP_DISABLE_PIP_VERSION_CHECK", "1",
		"PIP_NO_INPUT", "1",
		"PIPX_HOME", d.Cache + "/pipx",
		"PIPX_BIN_DIR", d.Cache + "/pipx-bin",
		"PIPX_MAN_DIR", d.Cache + "/pipx-man",
	}
	if n == offline {
		pairs = append(pairs, "npm_config_offline", "true", "pnpm_config_offline", "true", "UV_OFFLINE", "1", "PIP_NO_INDEX", "1")
	}
	pairs = append(pairs, more...)
	for i := 0; i+1 < len(pairs); i += 2 {
		v := config.Variable{Name: pairs[i], Value: config.Literal(pairs[i+1])}
		if at := slices.IndexFunc(all, func(have config.Variable) bool { return have.Name == v.Name }); at >= 0 {
			all[at] = v
			continue
		}
		all = append(all, v)
	}
	return all
}

// environment returns belljar's variables together with those of an entry. If both set a
// variable, belljar's value is used.
func (p *Plan) environment(d Dirs, of []config.Variable, n network, more []string) []config.Variable {
	all := ours(d, n, more)
	for _, v := range of {
		if same := slices.IndexFunc(all, func(have config.Variable) bool { return sameVariable(have.Name, v.Name) }); same >= 0 {
			p.note("remove it from the entry", "the variable %s is set by belljar, and the entry's value is not used", v.Name)
			continue
		}
		all = append(all, v)
	}
	return all
}

// sameVariable reports whether two names mean the same variable to the program that reads
// it: npm ignores the case of its own variables.
func sameVariable(a, b string) bool {
	if a == b {
		return true
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	return a == b && (strings.HasPrefix(a, "npm_config_") || strings.HasPrefix(a, "pnpm_config_"))
}

// installs returns the entry's variables that are set while packages are installed. They
// are the settings of package managers: with other settings, a package might be resolved
// differently from the second phase. Variables with a login are excluded, since scripts of
// packages run in this phase before anybody has reviewed them.
func installs(env []config.Variable) (all []config.Variable) {
	for _, v := range env {
		if _, plain := v.Value.Plain(); plain && setsManager(v.Name) && !login().MatchString(v.Name) {
			all = append(all, v)
		}
	}
	return all
}

// setsManager reports whether a variable is a setting of a package manager.
func setsManager(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc([]string{"UV_", "PIP_", "PIPX_", "BUN_CONFIG_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) ||
		strings.HasPrefix(lower, "npm_config_") || strings.HasPrefix(lower, "pnpm_config_")
}

// namesRegistry reports whether a setting determines where packages come from.
func namesRegistry(name string) bool {
	return strings.HasSuffix(strings.ToLower(name), "registry") ||
		slices.Contains([]string{"UV_INDEX", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"}, name)
}

// login matches the names of variables that contain a login.
var login = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)token|secret|passw|username|_key|apikey|auth`) })
