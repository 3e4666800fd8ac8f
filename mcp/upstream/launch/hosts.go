package launch

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"belljar.dev/mcp/upstream/config"
)

// Hosts of the usual registries. pypi.org serves the index, and files.pythonhosted.org the
// files.
var (
	npmHosts  = []string{"registry.npmjs.org"}
	pypiHosts = []string{"pypi.org", "files.pythonhosted.org"}
)

// githubHosts serve packages that are named by a GitHub repository.
var githubHosts = []string{"github.com", "codeload.github.com"}

// thePackage is the name in errors for a package URL, in place of an option's name.
const thePackage = "the package"

// hosts gathers the hosts that an installation needs.
type hosts struct{ all []string }

func (h *hosts) add(names ...string) {
	for _, name := range names {
		if !slices.Contains(h.all, name) {
			h.all = append(h.all, name)
		}
	}
}

// url adds the host of a URL, or refuses the URL. of says where the URL stands: an option, a
// variable, or thePackage.
func (h *hosts) url(of, text string) error {
	u, err := url.Parse(strings.TrimPrefix(text, "git+"))
	switch {
	case err != nil || u.Hostname() == "":
		return refuse(of, "write https://HOST/PATH", "%s does not give a URL with a host", of)
	case u.Scheme == "ssh" && of == thePackage:
		return refuse("", "write git+https://", "%s needs ssh, and a box has no keys for it", of)
	case u.User != nil:
		return refuse(of, "write the URL without a login", "the URL of %s contains a login, which scripts of packages could read", of)
	case u.Scheme != "https":
		return refuse(of, "write https://", "the URL of %s is not https, so others could replace the package on its way", of)
	}
	host := strings.ToLower(u.Hostname())
	if port := u.Port(); port != "" && port != "443" {
		host += ":" + port
	}
	h.add(host)
	if host == "github.com" {
		h.add(githubHosts...)
	}
	return nil
}

var (
	packageURL = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:git\+)?(?:https?|ssh|git)://\S+`) })
	repository = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:github:)?[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+(?:#.*)?$`)
	})
)

// npm adds the hosts of an npm package. chosen reports that another registry replaces the
// usual one.
func (h *hosts) npm(t config.Text, chosen bool) error {
	switch spec := value(t); {
	case localPath(spec):
		return nil
	case packageURL().MatchString(spec):
		if err := h.url(thePackage, packageURL().FindString(spec)); err != nil {
			return err
		}
	case strings.HasPrefix(spec, "git@"), strings.HasPrefix(spec, "gitlab:"), strings.HasPrefix(spec, "bitbucket:"), strings.HasPrefix(spec, "gist:"):
		return refuse("", "write git+https://HOST/OWNER/NAME.git", "the name of the package %s needs ssh or does not contain a host", t)
	case repository().MatchString(spec):
		h.add(githubHosts...)
	}
	if !chosen { // a package from elsewhere has dependencies in the registry too
		h.add(npmHosts...)
	}
	return nil
}

// python adds the hosts of a Python package.
func (h *hosts) python(t config.Text, chosen bool) error {
	if at := packageURL().FindString(value(t)); at != "" {
		if err := h.url(thePackage, at); err != nil {
			return err
		}
	}
	if !chosen {
		h.add(pypiHosts...)
	}
	return nil
}

// localPath reports whether a package is in a directory of the box.
func localPath(spec string) bool {
	return strings.HasPrefix(spec, "file:") || strings.HasPrefix(spec, "/") || strings.HasPrefix(spec, "./") || strings.HasPrefix(spec, "../") ||
		spec == "." || spec == ".." || strings.HasPrefix(spec, "~/")
}

// Settings of package managers that are refused. fileSettings name a file that does not
// exist in the first phase, so another registry would be used. certificateSettings change
// which certificates are accepted from a registry.
var (
	fileSettings        = []string{"npm_config_userconfig", "npm_config_globalconfig", "UV_CONFIG_FILE", "PIP_CONFIG_FILE"}
	certificateSettings = []string{"npm_config_strict_ssl", "npm_config_ca", "npm_config_cafile", "UV_INSECURE_HOST", "PIP_TRUSTED_HOST", "PIP_CERT", "SSL_CERT_FILE"}
)

// variables adds the hosts that an entry's variables name, and reports whether one of the
// variables replaces the usual registry. It refuses a variable that cannot be used in the
// first phase: the usual registry may have another person's package under the same name.
func (p *Plan) variables(h *hosts, replacing ...string) (chosen bool, err error) {
	for _, v := range p.env {
		same := func(name string) bool { return sameVariable(name, v.Name) }
		_, plain := v.Value.Plain()
		switch {
		case slices.ContainsFunc(fileSettings, same):
			return false, refuse(v.Name, "write its settings as variables", "the variable %s names a file that does not exist while packages are installed", v.Name)
		case slices.ContainsFunc(certificateSettings, same):
			return false, refuse(v.Name, "remove it", "the variable %s changes which certificates are accepted from a registry", v.Name)
		case !namesRegistry(v.Name) || !setsManager(v.Name):
			continue
		case !plain:
			return false, refuse(v.Name, "name a registry without a login", "the variable %s contains a secret, which scripts of packages could read", v.Name)
		}
		for one := range strings.FieldsSeq(value(v.Value)) {
			if name, at, ok := strings.Cut(one, "="); ok && !strings.Contains(name, "/") { // UV_INDEX: name=URL
				one = at
			}
			if localPath(one) {
				continue
			}
			if err := h.url("the variable "+v.Name, one); err != nil {
				return false, err
			}
		}
		chosen = chosen || slices.ContainsFunc(replacing, same)
	}
	return chosen, nil
}
