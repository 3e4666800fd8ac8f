package main

import (
	"errors"
	"os"
	"strconv"
)

// varExecPID is the variable by which systemd names the main process of a service
// (systemd.exec(5)).
const varExecPID = "SYSTEMD_EXEC_PID"

// mayHandOver returns an error if systemd would end a successor together with this process.
func mayHandOver(getenv func(string) string) error {
	if getenv(varExecPID) == strconv.Itoa(os.Getpid()) {
		return errors.New("systemd would end the successor together with this process; let systemd open the sockets, and restart the service instead")
	}
	return nil
}
