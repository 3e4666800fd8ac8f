package login

import (
	"context"
	"fmt"
)

// Login logs in at a server: it finds the authorization server, lets the person log in
// there, and keeps the tokens. It returns after the login has succeeded or failed, or after
// ten minutes.
func Login(ctx context.Context, cfg Config) error {
	fl, err := StartFlow(ctx, cfg)
	if err == nil {
		defer fl.Close(ctx)
		cfg.Open(fl.URL())
		err = fl.Finish(ctx)
	}
	if err != nil {
		return fmt.Errorf("log in at the server %s: %w", show(cfg.Server.Name), err)
	}
	return nil
}
