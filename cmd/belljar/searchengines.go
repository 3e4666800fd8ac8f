package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/search/engine"
)

// loadEngines loads the engines, including the operator's own. If dir is empty, it uses the
// directory of the configuration, if that exists.
func loadEngines(dir string) (*engine.Set, error) {
	if dir == "" {
		dir = config.EnginesDir()
	}
	return engine.Load(dir)
}

func searchEnginesCommand() *cobra.Command {
	dir, asJSON := "", false
	c := &cobra.Command{
		Use:   "engines",
		Short: "list the engines",
		Long: `engines lists the engines in the order in which they are asked: by default, with
a key or an address that a secret holds, in place of one that fails, and by name
only.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			engines, err := loadEngines(dir)
			if err != nil {
				return failure(err)
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), describeEngines(engines))
			}
			return failure(listEngines(c.OutOrStdout(), engines))
		},
	}
	filesFlag(c, &dir)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// filesFlag adds the option that names the operator's own engines.
func filesFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "files", "", "`directory` of your own engine files (default: $XDG_CONFIG_HOME/belljar/engines)")
}

// engineInfo is an engine in the JSON output.
type engineInfo struct {
	Name     string   `json:"name"`
	Use      string   `json:"use"`
	Role     string   `json:"role"`
	Family   string   `json:"family"`
	Hosts    []string `json:"hosts,omitempty"`
	Every    string   `json:"every"`
	Burst    int      `json:"burst"`
	Key      string   `json:"key,omitempty"`
	URL      string   `json:"url,omitempty"`
	Verified bool     `json:"verified"`
	Source   string   `json:"source"`
	About    string   `json:"about,omitempty"`
}

func describeEngines(engines *engine.Set) []engineInfo {
	var all []engineInfo
	for _, e := range engines.All() {
		all = append(all, engineInfo{
			Name: e.Name, Use: string(e.Use), Role: string(e.Role), Family: e.Family, Hosts: e.Hosts,
			Every: e.Rate.Every.String(), Burst: e.Rate.Burst, Key: e.NeedsKey, URL: e.NeedsURL,
			Verified: e.Verified, Source: e.Source, About: e.About,
		})
	}
	return all
}

func listEngines(out io.Writer, engines *engine.Set) error {
	w := newTable(out)
	fmt.Fprintln(w, "ENGINE\tUSE\tROLE\tINDEX\tRATE\tNEEDS\tABOUT")
	for _, e := range engines.All() {
		needs := strings.TrimSpace(e.NeedsKey + " " + e.NeedsURL)
		if needs == "" {
			needs = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t1/%s, %d at once\t%s\t%s\n",
			e.Name, e.Use, e.Role, e.Family, short(e.Rate.Every), e.Rate.Burst, needs, e.About)
	}
	return w.Flush()
}

// short returns a duration without its parts that are zero: 5m, not 5m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}
