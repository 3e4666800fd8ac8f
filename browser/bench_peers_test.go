package browser_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"belljar.dev/browser"
)

// The peers load a page as their users do: they make a context and a page in it, load the
// URL, read the content, and close the context. They use the same Chromium, run as root
// without a sandbox and without a door. They are given the text to wait for, which the pool
// does not need.

// peer is chromedp with a browser context for each call, with the same Chrome.
func peer(b *testing.B) context.Context {
	b.Helper()
	path, err := browser.Find()
	if err != nil {
		b.Skip(err)
	}
	opts := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	opts = append(opts, chromedp.ExecPath(path))
	ctx, cancel := chromedp.NewExecAllocator(b.Context(), opts...)
	b.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	b.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		b.Fatal(err)
	}
	return ctx
}

func peerLoad(ctx context.Context, b *testing.B, url, selector string) string {
	b.Helper()
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	defer cancel()
	steps := []chromedp.Action[chromedp.Void]{chromedp.Navigate(url)}
	if selector != "" {
		steps = append(steps, chromedp.WaitReady(chromedp.CSS(selector)))
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
	html, err := chromedp.Run(ctx, chromedp.OuterHTML(chromedp.CSS("html")))
	if err != nil {
		b.Fatal(err)
	}
	return html
}

// startPlaywright starts the other peer. It returns nil if playwright is not installed
// (scripts/peers).
func startPlaywright(b *testing.B) func(url, selector string) time.Duration {
	b.Helper()
	module, err := filepath.Abs("../bin/peers/node_modules/playwright-core")
	if err != nil {
		b.Fatal(err)
	}
	program, err := browser.Find()
	if _, missing := os.Stat(module); err != nil || missing != nil {
		b.Log("playwright-core is not installed, and left out")
		return nil
	}
	c := exec.CommandContext(b.Context(), "node", "testdata/playwright.mjs", module, program)
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Log(err)
		return nil
	}
	b.Cleanup(func() {
		in.Close()
		_ = c.Wait()
	})
	lines := bufio.NewScanner(out)
	lines.Scan() // the peer is ready
	return func(url, selector string) time.Duration {
		fmt.Fprintf(in, "%s %s\n", url, selector)
		if !lines.Scan() {
			b.Fatal("playwright ended")
		}
		var took float64
		if _, err := fmt.Sscan(lines.Text(), &took); err != nil {
			b.Fatal(err)
		}
		return time.Duration(took * float64(time.Millisecond))
	}
}
