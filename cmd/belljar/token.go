package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/config"
	"belljar.dev/internal/store"
	"belljar.dev/policies"
)

// tokens is the flags of the token commands.
type tokens struct {
	state, tenant string
	asJSON, all   bool
}

func tokenCommand() *cobra.Command {
	var t tokens
	c := &cobra.Command{
		Use:   "token",
		Short: "make, list and revoke the tokens of clients over HTTP",
		Long: `token makes the bearer tokens with which clients of "belljar serve --http" log in as a
tenant of the policy. A token is printed once, when it is made; the state directory
has its digest, and not the token. A running server accepts a new token and refuses a
revoked one within a second, and ends the sessions of the revoked one.

  belljar token create --tenant ci --expires 90d --note 'the build server'
  belljar token list
  belljar token revoke k3j5m7q2xa
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&t.state, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	list := &cobra.Command{
		Use: "list", Short: "list the valid tokens",
		RunE: func(c *cobra.Command, _ []string) error { return t.printList(c) },
	}
	list.Flags().StringVar(&t.tenant, "tenant", "", "only those of this `tenant`")
	list.Flags().BoolVar(&t.all, "all", false, "also list tokens that were revoked or have expired")
	list.Flags().BoolVar(&t.asJSON, "json", false, "print JSON")
	revoke := &cobra.Command{
		Use: "revoke [ID...]", Short: "revoke tokens",
		Long: `revoke revokes the tokens with the given ids, or all of a tenant. The id is
the second part of a token; the whole token may be given, too. Servers that run refuse a
token within a second after it was revoked, and end its sessions.

  belljar token revoke k3j5m7q2xa
  belljar token revoke --tenant ci
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return t.revoke(c, args) },
	}
	revoke.Flags().StringVar(&t.tenant, "tenant", "", "all tokens of this `tenant`")
	revoke.Flags().BoolVar(&t.asJSON, "json", false, "print JSON")
	c.AddCommand(t.createCommand(), list, revoke)
	return c
}

func (t *tokens) createCommand() *cobra.Command {
	var (
		made    auth.Token
		expires time.Duration
		policy  string
	)
	c := &cobra.Command{
		Use:   "create",
		Short: "make a token and print it, once",
		Long: `create makes a token for a tenant and prints it on standard output; the rest goes to
standard error. Nobody can print it again. With --scope the token can be used for less
than the tenant may do: the policy says under auth: {scopes: ...} what a scope
allows, and a scope that it does not contain allows nothing.

  belljar token create --tenant ci --expires 90d --note 'the build server' >token
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			if made.Tenant == "" {
				return usage("token create: name the tenant with --tenant")
			}
			if !policies.IsName(made.Tenant) {
				return usage("token create: --tenant %q cannot be the name of a tenant; %s", policies.Clip(made.Tenant, 64), policies.NameShape)
			}
			if expires != 0 {
				made.Expires = time.Now().Add(expires).Truncate(time.Second)
			}
			return t.create(c, made, policy)
		},
	}
	c.Flags().StringVar(&made.Tenant, "tenant", "", "the `tenant` of the policy whose clients have the token")
	c.Flags().StringArrayVar(&made.Scopes, "scope", nil, "`name` of a scope that the token has; may be repeated (default: all that the tenant may do)")
	c.Flags().Var((*spanFlag)(&expires), "expires", "`time` after which the token is not accepted, such as 90d or 12h (default: never)")
	c.Flags().StringVar(&made.Note, "note", "", "`text` that list shows")
	c.Flags().StringVar(&policy, "policy", "", "`file` of the servers' policy, to check the tenant")
	c.Flags().BoolVar(&t.asJSON, "json", false, "print JSON")
	return c
}

// with calls f with the book of the state directory.
func (t *tokens) with(state string, f func(*auth.Book) error) error {
	kept := store.New(state)
	return errors.Join(f(auth.NewBook(state, kept, nil)), kept.Close())
}

func (t *tokens) create(c *cobra.Command, made auth.Token, policy string) error {
	state, err := config.FindState(t.state)
	if err != nil {
		return failure(err)
	}
	warnTenant(c, made.Tenant, policy)
	var token string
	err = t.with(state, func(b *auth.Book) (err error) {
		made, token, err = b.Create(c.Context(), made)
		return err
	})
	if err != nil {
		return failure(err)
	}
	if t.asJSON {
		return printJSON(c.OutOrStdout(), struct {
			auth.Token
			Secret string `json:"token"`
		}{made, token})
	}
	if _, err := fmt.Fprintln(c.OutOrStdout(), token); err != nil {
		return failure(err)
	}
	until := "It does not expire."
	if !made.Expires.IsZero() {
		until = "It expires on " + made.Expires.Local().Format("2006-01-02 15:04") + "."
	}
	fmt.Fprintf(c.ErrOrStderr(), "This token of tenant %s is not shown again. Its id is %s. %s\n", made.Tenant, made.ID, until)
	return nil
}

// warnTenant prints a warning if the policy does not name a tenant. The server may use
// another policy, so this is not an error.
func warnTenant(c *cobra.Command, tenant, policy string) {
	name, p, err := config.FindPolicy(policy, "")
	switch {
	case err != nil:
		fmt.Fprintf(c.ErrOrStderr(), "belljar: the tenant is not checked: %s\n", config.FirstLine(err))
	case !slices.Contains(p.Tenants(), tenant):
		fmt.Fprintf(c.ErrOrStderr(), "belljar: the policy %s names no tenant %s; a server accepts the token when its policy does\n", name, policies.Clip(tenant, 64))
	}
}

// list returns the tokens that the flags choose.
func (t *tokens) list(ctx context.Context) (all []auth.Token, err error) {
	state, err := config.KnownState(t.state)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(store.Path(state)); errors.Is(err, fs.ErrNotExist) {
		return []auth.Token{}, nil // no token was made yet, and no database is created to look for one
	}
	err = t.with(state, func(b *auth.Book) (err error) {
		all, err = b.List(ctx)
		return err
	})
	now := time.Now()
	return slices.DeleteFunc(all, func(token auth.Token) bool {
		return t.tenant != "" && token.Tenant != t.tenant || !t.all && token.State(now) != ""
	}), err
}

func (t *tokens) printList(c *cobra.Command) error {
	all, err := t.list(c.Context())
	if err != nil {
		return failure(err)
	}
	if t.asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	return printTokens(c.OutOrStdout(), all)
}

func printTokens(out io.Writer, all []auth.Token) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "No tokens.")
		return failure(err)
	}
	now := time.Now()
	ago := func(at time.Time) string {
		if at.IsZero() {
			return "never"
		}
		return policies.Spoken(now.Sub(at).Truncate(time.Minute)) + " ago"
	}
	w := newTable(out)
	fmt.Fprintln(w, "ID\tTENANT\tSCOPES\tCREATED\tEXPIRES\tLAST USED\tNOTE")
	for _, token := range all {
		scopes, until := "all", "never"
		if token.Scopes != nil {
			scopes = strings.Join(token.Scopes, " ")
		}
		if state := token.State(now); state != "" {
			until = string(state)
		} else if !token.Expires.IsZero() {
			until = token.Expires.Local().Format(time.DateOnly)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", token.ID, token.Tenant, scopes, token.Created.Local().Format(time.DateOnly), until, ago(token.Used), cmp.Or(token.Note, "-"))
	}
	return failure(w.Flush())
}

func (t *tokens) revoke(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 && t.tenant == "":
		return usage("token revoke: name the tokens by their ids, or give --tenant")
	case len(args) > 0 && t.tenant != "":
		return usage("token revoke: give ids or --tenant, and not both")
	}
	t.all = true
	all, err := t.list(c.Context())
	if err != nil {
		return failure(err)
	}
	var ids []string
	for _, arg := range args {
		id := auth.IDOf(arg)
		if !slices.ContainsFunc(all, func(token auth.Token) bool { return token.ID == id }) {
			return failure(fmt.Errorf("token revoke: no token has the id %q; `belljar token list` shows them. None was revoked", policies.Clip(id, 16)))
		}
		ids = append(ids, id)
	}
	if len(args) == 0 {
		for _, token := range all {
			ids = append(ids, token.ID)
		}
	}
	revoked := []auth.Token{}
	if len(ids) > 0 {
		state, err := config.KnownState(t.state)
		if err != nil {
			return failure(err)
		}
		err = t.with(state, func(b *auth.Book) (err error) {
			revoked, err = b.Revoke(c.Context(), ids)
			return err
		})
		if err != nil {
			return failure(err)
		}
	}
	if t.asJSON {
		return printJSON(c.OutOrStdout(), revoked)
	}
	for _, token := range revoked {
		fmt.Fprintf(c.OutOrStdout(), "%s of tenant %s: revoked. Servers refuse it within a second.\n", token.ID, token.Tenant)
	}
	if len(revoked) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "No token was valid any more.")
	}
	return nil
}
