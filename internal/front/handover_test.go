package front

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// A stream ends when a server that has a successor drains. Its client does not send the
// next request on the same connection to this server, which would refuse it.
func TestStreamsBringNobodyBack(t *testing.T) {
	s := startTLS(t, Config{})
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each case waits for handOverGrace
			r := &running{logs: s.logs}
			var err error
			if r.Front, err = Open(t.Context(), Config{Addr: "127.0.0.1:0", Cert: s.cert, Key: s.key, Log: s.log}, true); err != nil {
				t.Fatal(err)
			}
			ends, tried := make(chan struct{}), make(chan struct{})
			var requests atomic.Int64
			r.Handle("/mcp", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, ":\n\n")
				_ = http.NewResponseController(w).Flush()
				<-ends
			}))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var serving sync.WaitGroup
			serving.Go(func() {
				err := r.Serve(ctx, func() error {
					close(ends)
					<-tried
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.pool}, ForceAttemptHTTP2: h2}}
			defer client.CloseIdleConnections()
			res, err := client.Get(r.URL() + "/mcp")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got := res.ProtoMajor == 2; got != h2 {
				t.Fatalf("the client speaks %s", res.Proto)
			}
			r.Succeed()
			cancel()
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Errorf("the stream was cut: %v", err)
			}
			if res, err := client.Get(r.URL() + "/mcp"); err == nil { // if the port is closed, another server may have it
				res.Body.Close()
				t.Errorf("the next request is answered with %s", res.Status)
			}
			close(tried)
			serving.Wait()
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests came to the server that drains, want that for the stream", n)
			}
		})
	}
}
