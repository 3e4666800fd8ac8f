package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// The variables with which systemd names the main process of a service (systemd.exec(5)),
// and the socket for messages of a service about itself (sd_notify(3)).
const (
	varExecPID = "SYSTEMD_EXEC_PID"
	varNotify  = "NOTIFY_SOCKET"
)

// manager is the service manager that started this process. The zero value is for a process
// that was not started by one, and sends nothing.
type manager struct{ socket string }

// managerOf returns the service manager that the variables of a process name.
func managerOf(getenv func(string) string) manager { return manager{getenv(varNotify)} }

// ready reports to the service manager that the service can be used.
func (m manager) ready() error { return m.say("READY=1") }

// follows reports to the service manager which process is the main process of the service
// from now on.
func (m manager) follows(pid int) error { return m.say("MAINPID=" + strconv.Itoa(pid)) }

func (m manager) say(what string) error {
	if m.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager %s: %w", what, err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(what)); err != nil {
		return fmt.Errorf("notify the service manager %s: %w", what, err)
	}
	return nil
}

// mayHandOver returns an error if systemd would end a successor together with this process,
// because it cannot be notified of the successor.
func mayHandOver(getenv func(string) string) error {
	if getenv(varExecPID) == strconv.Itoa(os.Getpid()) && getenv(varNotify) == "" {
		return errors.New("systemd would end the successor together with this process: only a service with Type=notify may name a successor; set that in the unit, or let systemd open the sockets and restart the service instead")
	}
	return nil
}
