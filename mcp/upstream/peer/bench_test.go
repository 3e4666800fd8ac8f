package peer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"belljar.dev/mcp/wire"
)

// echoLines answers each request of a stream with the same result. It does as little work
// as a server can.
func echoLines(in io.Reader, out io.Writer, result string) {
	lines := bufio.NewReader(in)
	answer := make([]byte, 0, 256)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		rest := line[len(`{"jsonrpc":"2.0","id":`):]
		n := 0
		for rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		answer = append(append(append(answer[:0], `{"jsonrpc":"2.0","id":`...), rest[:n]...), `,"result":`...)
		answer = append(append(answer, result...), "}\n"...)
		if _, err := out.Write(answer); err != nil {
			return
		}
	}
}

// streams contains both ends of a server's two streams.
type streams struct {
	in      io.WriteCloser
	serverR io.ReadCloser
	out     io.ReadCloser
	serverW io.WriteCloser
}

// echo starts to answer each request with a result. The returned channel is closed when
// that has ended.
func (s streams) echo(result string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		echoLines(s.serverR, s.serverW, result)
	}()
	return done
}

func memory(testing.TB) streams {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	return streams{inW, inR, outR, outW}
}

func files(b testing.TB) streams {
	inR, inW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	return streams{inW, inR, outR, outW}
}

const benchParams = `{"name":"add","arguments":{"a":2,"b":3}}`

// BenchmarkCall measures a call through a Conn. For comparison it measures the same round
// trip without a Conn: written, read and decoded by package encoding/json in one goroutine.
func BenchmarkCall(b *testing.B) {
	results := map[string]string{"small": `{"content":[{"type":"text","text":"5"}]}`}
	results["64KiB"] = `{"content":[{"type":"text","text":"` + strings.Repeat("x", 64<<10) + `"}]}`
	for _, pipe := range []struct {
		name string
		make func(testing.TB) streams
	}{{"memory", memory}, {"pipe", files}} {
		for size, result := range results {
			b.Run(fmt.Sprintf("peer/%s/%s", pipe.name, size), func(b *testing.B) {
				s := pipe.make(b)
				done := s.echo(result)
				c, _, err := begin(b.Context(), Pipes{In: s.in, Out: s.out, Stop: func() { s.serverW.Close() }}, Config{})
				if err != nil {
					b.Fatal(err)
				}
				c.info.Store(&Info{Era: wire.Legacy})
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Call(b.Context(), "tools/call", json.RawMessage(benchParams), CallOptions{}); err != nil {
						b.Fatal(err)
					}
				}
				c.Close()
				<-done
				s.serverR.Close()
				s.out.Close()
			})
			b.Run(fmt.Sprintf("bare/%s/%s", pipe.name, size), func(b *testing.B) {
				s := pipe.make(b)
				done := s.echo(result)
				answers := bufio.NewReaderSize(s.out, 64<<10)
				id := 0
				b.ReportAllocs()
				for b.Loop() {
					id++
					line, err := json.Marshal(struct {
						Version string          `json:"jsonrpc"`
						ID      int             `json:"id"`
						Method  string          `json:"method"`
						Params  json.RawMessage `json:"params"`
					}{"2.0", id, "tools/call", json.RawMessage(benchParams)})
					if err != nil {
						b.Fatal(err)
					}
					if _, err := s.in.Write(append(line, '\n')); err != nil {
						b.Fatal(err)
					}
					text, err := answers.ReadBytes('\n')
					if err != nil {
						b.Fatal(err)
					}
					var answer struct {
						ID     int             `json:"id"`
						Result json.RawMessage `json:"result"`
					}
					if err := json.Unmarshal(text, &answer); err != nil || answer.ID != id {
						b.Fatal(err)
					}
				}
				s.in.Close()
				<-done
				s.serverW.Close()
				s.serverR.Close()
				s.out.Close()
			})
		}
	}
}
