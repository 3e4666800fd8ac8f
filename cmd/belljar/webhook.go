package main

import (
	"errors"

	"github.com/spf13/cobra"

	"belljar.dev/internal/server"
)

// webhookFlags are the flags of the webhook to which questions are sent.
type webhookFlags server.Webhook

func (h *webhookFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&h.URL, "webhook", "", "`URL` that gets each question to a person")
	c.Flags().StringVar(&h.Secret, "webhook-secret", "", "`secret` that signs what goes to --webhook: env:NAME or file:PATH")
	c.Flags().StringVar(&h.Answers, "webhook-answers", "", "loopback `address` that takes answers of the webhook, such as 127.0.0.1:8931")
	c.Flags().BoolVar(&h.Private, "webhook-private", false, "the webhook may be on this machine or in a private network")
}

// webhook returns the webhook that the flags describe; nil if no flag is given.
func (h *webhookFlags) webhook() (*server.Webhook, error) {
	w := server.Webhook(*h)
	err := w.Check()
	switch {
	case w == server.Webhook{}:
		return nil, nil //nolint:nilnil // nil means that no flag of the webhook was given
	case w.URL == "":
		err = errors.New("--webhook-... without --webhook URL")
	}
	if err != nil {
		return nil, usage("serve: %w", err)
	}
	return &w, nil
}
