package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

func policyScoreCommand() *cobra.Command {
	var asJSON, here bool
	var workspace string
	c := &cobra.Command{
		Use:   "score FILE...",
		Short: "rate what the profiles of a policy expose, and what is allowed unasked",
		Long: `score rates each profile: 0 says that a box can reach nothing of the host, 100
that the box is a formality. docs/hosts.md says what adds to it. The
score assumes a host that has every wall and enforces every limit; with --here it
is for this host, as in "belljar doctor".

Below the score it says what becomes of each tool's calls that ask for the profile:
whether all or some of them run unasked, by which rules, and which other rules deny
some of them or ask about them. Tools with the same answer share a line. What tenants, layers,
conditions and limits take away is not counted.

The last line is the worst that happens without a question: the profile with the
highest score in which commands run unasked.

With --json it prints an object with "policies", each with "policy", "profiles"
("profile", "score", "points", "tools") and "unasked" ("profile", "score").

Exit status: 0; 1 a policy has faults; 2 the command line is not valid.`,
		Example: "  belljar policy score default ./policy.yaml",
		Args:    atLeastOne("the policies to rate"),
		RunE: func(c *cobra.Command, names []string) error {
			host := sandbox.SoundHost()
			if here {
				dir, err := config.FindWorkspace(workspace)
				if err != nil {
					return failure(err)
				}
				host = sandbox.Examine(dir)
			}
			rated := []rating{}
			if err := eachPolicy(c, names, func(name string, p *policies.Policy) { rated = append(rated, rate(name, p, host)) }); err != nil {
				return err
			}
			return failure(printRatings(c.OutOrStdout(), rated, asJSON))
		},
	}
	c.Flags().BoolVar(&here, "here", false, "rate the profiles on this host")
	c.Flags().StringVar(&workspace, "workspace", "", "with --here: the `directory` that is the workspace (default: the current one)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return c
}

// rating is the score of a policy.
type rating struct {
	Policy   string          `json:"policy"`
	Profiles []profileRating `json:"profiles"`
	Unasked  *unaskedRating  `json:"unasked"` // nil if no command runs without a question
}

type profileRating struct {
	sandbox.Exposure

	Tools []policies.Openness `json:"tools"`
}

// unaskedRating is the highest score of a command that runs without a question.
type unaskedRating struct {
	Profile string `json:"profile"`
	Score   int    `json:"score"`
}

// rate rates all profiles of a policy.
func rate(name string, p *policies.Policy, host sandbox.Host) rating {
	r := rating{Policy: name, Profiles: []profileRating{}}
	scores := make(map[string]int)
	for _, profile := range p.Profiles() {
		if what, ok := p.Profile(profile); ok {
			one := profileRating{Exposure: sandbox.Expose(what, host), Tools: p.Openness(profile)}
			scores[profile] = one.Score
			r.Profiles = append(r.Profiles, one)
		}
	}
	for _, one := range r.Profiles {
		for _, o := range one.Tools {
			if o.Tool != "Bash" && o.Tool != "BackgroundBash" || o.Unasked != policies.UnaskedAny && o.Unasked != policies.UnaskedSome {
				continue
			}
			for _, profile := range append([]string{one.Profile}, o.Grants...) {
				if r.Unasked == nil || scores[profile] > r.Unasked.Score {
					r.Unasked = &unaskedRating{profile, scores[profile]}
				}
			}
		}
	}
	return r
}

// printRatings prints ratings.
func printRatings(w io.Writer, all []rating, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(struct {
			Policies []rating `json:"policies"`
		}{all})
	}
	for i, r := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "policy %s\n", r.Policy)
		for _, p := range r.Profiles {
			fmt.Fprintf(w, "\nprofile %s: exposure %d of 100\n", p.Profile, p.Score)
			if err := p.print(w); err != nil {
				return err
			}
		}
		if r.Unasked == nil {
			fmt.Fprintf(w, "\nNo command runs unasked.\n")
			continue
		}
		fmt.Fprintf(w, "\nUnasked, a command has at most the profile %s: exposure %d of 100.\n", r.Unasked.Profile, r.Unasked.Score)
	}
	return nil
}

// print prints the parts of a score, and which tools run without a question.
func (p profileRating) print(w io.Writer) error {
	t := newTable(w)
	for _, point := range p.Points {
		fmt.Fprintf(t, "  %+d\t%s\n", point.Score, point.Fact)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = newTable(w)
	for _, unasked := range []policies.Unasked{policies.UnaskedAny, policies.UnaskedSome, policies.UnaskedAsks, policies.UnaskedNone} {
		var lines []string // in the order of the tools
		tools := make(map[string][]string)
		for _, o := range p.Tools {
			if o.Unasked != unasked {
				continue
			}
			why := reasonsOf(o)
			if !slices.Contains(lines, why) {
				lines = append(lines, why)
			}
			tools[why] = append(tools[why], o.Tool)
		}
		for _, why := range lines {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", unasked, why, strings.Join(tools[why], ", "))
		}
	}
	return t.Flush()
}

// reasonsOf returns the reasons why calls of a tool run or do not.
func reasonsOf(o policies.Openness) string {
	why := "by " + strings.Join(o.By, ", ")
	if len(o.Grants) > 0 {
		why += ", in profile " + strings.Join(o.Grants, " or ")
	}
	if len(o.But) > 0 {
		why += "; but for " + strings.Join(o.But, ", ")
	}
	return why
}
