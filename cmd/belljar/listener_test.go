package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// listener serves ports of 127.0.0.1 for the scripts until it is ended: listener PORT... It
// returns what it gets. As listener http FILE, it answers requests on a port that it
// prints, returns their Authorization header and stores it in a file.
func listener() {
	if len(os.Args) == 3 && os.Args[1] == "http" {
		listenHTTP(os.Args[2])
		return
	}
	for _, port := range os.Args[1:] {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			fmt.Fprintln(os.Stderr, "listener:", err)
			os.Exit(1)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = io.Copy(c, c)
				}()
			}
		}()
	}
	fmt.Println("listening")
	select {}
}

func listenHTTP(file string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "listener:", err)
		os.Exit(1)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	fmt.Println(port)
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer f.Close()
		fmt.Fprintln(f, r.URL.Path, r.Header.Get("Authorization"))
		fmt.Fprintln(w, "got", r.Header.Get("Authorization"))
	}))
}
