package names

// jaroWinkler returns the similarity of two words after Winkler, 1990: Jaro's, and more
// for a common beginning of up to four letters.
func jaroWinkler(a, b []rune) float64 {
	j := jaro(a, b)
	prefix := 0
	for prefix < min(4, len(a), len(b)) && a[prefix] == b[prefix] {
		prefix++
	}
	return j + 0.1*float64(prefix)*(1-j)
}

// jaro returns the similarity of two words after Jaro, 1989: how many letters they share
// at places that are near each other, and how many of those are in another order.
func jaro(a, b []rune) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	near := max(0, max(len(a), len(b))/2-1)
	var takenA, takenB [maxName]bool
	a, b = a[:min(len(a), maxName)], b[:min(len(b), maxName)]
	shared := 0
	for i, r := range a {
		for j := max(0, i-near); j < min(len(b), i+near+1); j++ {
			if !takenB[j] && b[j] == r {
				takenA[i], takenB[j] = true, true
				shared++
				break
			}
		}
	}
	if shared == 0 {
		return 0
	}
	moved, j := 0, 0
	for i, r := range a {
		if !takenA[i] {
			continue
		}
		for !takenB[j] {
			j++
		}
		if b[j] != r {
			moved++
		}
		j++
	}
	m := float64(shared)
	return (m/float64(len(a)) + m/float64(len(b)) + (m-float64(moved)/2)/m) / 3
}
