package callback

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Scheduled returns the text that reports a callback that was set.
func Scheduled(c Callback) string {
	every := fmt.Sprintf("Callback scheduled: fires every %ds, ", c.Delay/time.Second)
	if c.Left == Forever {
		return every + "repeats infinitely."
	}
	return every + fmt.Sprintf("repeats %d times.", c.Left)
}

// Active returns the list of the armed callbacks, with the times left at now.
func Active(all []Callback, now time.Time) string {
	if len(all) == 0 {
		return "No active callbacks."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Active callbacks (%d/%d):", len(all), Slots)
	for _, c := range all {
		in := max(0, c.Due.Sub(now).Round(time.Second))
		left := "infinite"
		if c.Left != Forever {
			left = fmt.Sprintf("%d left", c.Left)
		}
		fmt.Fprintf(&b, "\n  [%d] %s - fires in %dm%02ds (%s)", c.Slot, strconv.Quote(c.Message), in/time.Minute, in%time.Minute/time.Second, left)
	}
	return b.String()
}

// Cancelled returns the text that reports the cancelled callbacks. one means that the
// request named one slot.
func Cancelled(gone []Callback, one bool) string {
	switch {
	case len(gone) == 0:
		return "No active callbacks."
	case one:
		return fmt.Sprintf("Cancelled callback slot %d: %s", gone[0].Slot, strconv.Quote(gone[0].Message))
	case len(gone) == 1:
		return "Cancelled 1 callback."
	}
	return fmt.Sprintf("Cancelled %d callbacks.", len(gone))
}

// Told returns the text of a delivery for the agent. The message is the text that the agent
// has set.
func Told(d Delivery) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[callback %d] %s", d.Slot, d.Message)
	var notes []string
	if d.Times > 1 {
		notes = append(notes, fmt.Sprintf("fired %d times since you last received it", d.Times))
	}
	switch d.Left {
	case Forever:
	case 0:
		notes = append(notes, "that was the last time; the slot is free")
	default:
		notes = append(notes, fmt.Sprintf("%d left", d.Left))
	}
	if len(notes) > 0 {
		b.WriteString(" (" + strings.Join(notes, "; ") + ")")
	}
	return b.String()
}
